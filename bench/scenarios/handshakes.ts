/**
 * Handshakes of callers: sidekerb, which decrypted its store once, beside a server that does it for each
 * handshake, from stores of 2,048 and of 100,000 iterations (document 002 of the sources).
 */

import { join } from 'node:path';
import { Child } from '../child.ts';
import { freePorts, type ProcessGroup } from '../process-group.ts';
import type { HandshakeName, ScenarioSubject } from '../scenario-names.ts';
import { startVariant } from './callers.ts';
import { type Contestant, parseWork, type Work } from './contestant.ts';
import { makeStore, STORE_PASSPHRASE } from './key-material.ts';
import { acceptsOn } from './probe.ts';
import type { Stage } from './stage.ts';

const LOAD = join(import.meta.dirname, '../load/handshakes.ts');
const SERVER = join(import.meta.dirname, '../peers/decrypting-server.ts');
const READY_MS = 15_000;
const EXTRA_MS = 20_000;
const WARM_UPS = 2;

/** What a case is about, from its name: `tls-rsa-12`, `tls-resumed-13`. */
export function handshakeOf(name: HandshakeName): {
  readonly key: 'rsa' | 'ec';
  readonly version: '1.2' | '1.3';
  readonly resume: boolean;
} {
  const [, kind, version] = name.split('-');
  return {
    key: kind === 'rsa' ? 'rsa' : 'ec',
    version: version === '12' ? '1.2' : '1.3',
    resume: kind === 'resumed',
  };
}

export async function prepareHandshakes(
  stage: Stage,
  group: ProcessGroup,
  {
    name,
    subjects,
    seconds,
  }: {
    readonly name: HandshakeName;
    readonly subjects: readonly ScenarioSubject[];
    readonly seconds: number;
  },
): Promise<Contestant[]> {
  const { key, version, resume } = handshakeOf(name);
  const contestants: Contestant[] = [];
  for (const subject of subjects) {
    const { port, pid } = await startServer(stage, group, { subject, key });
    const run = (connections: number): Promise<Work> =>
      shakeHands(stage, { port, version, resume, seconds, connections });
    contestants.push({ name: subject, pid, warmUps: WARM_UPS, run });
  }
  return contestants;
}

interface Wanted {
  readonly subject: ScenarioSubject;
  readonly key: 'rsa' | 'ec';
}

async function startServer(
  stage: Stage,
  group: ProcessGroup,
  { subject, key }: Wanted,
): Promise<{ readonly port: number; readonly pid: number }> {
  const iterations = subject === 'decrypt-100000' ? 100_000 : 2048;
  const store = await makeStore(await group.makeFolder(`${subject}-store`), key, iterations);
  if (subject === 'sidekerb') {
    const passphrase = await stage.write('passphrase', STORE_PASSPHRASE);
    const tls = `{ pkcs12: { file: ${JSON.stringify(store)} }, passphrase: { file: ${JSON.stringify(passphrase)} } }`;
    const settings = { originPort: await stage.openOrigin(), clients: 'none', tls };
    const { port, child } = await startVariant(group, subject, settings);
    return { port, pid: child.pid };
  }
  const [port = 0] = await freePorts(1);
  const child = await group.own(
    await Child.start({
      name: subject,
      command: process.execPath,
      args: [SERVER, '--port', String(port), '--store', store, '--passphrase', STORE_PASSPHRASE],
      core: group.cores.proxy,
    }),
  );
  await child.until(() => acceptsOn(port), READY_MS);
  return { port, pid: child.pid };
}

interface HandshakeLoad {
  readonly port: number;
  readonly version: string;
  readonly resume: boolean;
  readonly seconds: number;
  readonly connections: number;
}

async function shakeHands(stage: Stage, load: HandshakeLoad): Promise<Work> {
  const { port, version, resume, seconds, connections } = load;
  const args = [
    LOAD,
    '--port',
    String(port),
    '--version',
    version,
    '--seconds',
    String(seconds),
    '--in-flight',
    String(connections),
    ...(resume ? ['--resume'] : []),
  ];
  return parseWork(await stage.runLoad(process.execPath, args, seconds * 1000 + EXTRA_MS));
}
