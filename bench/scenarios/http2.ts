/**
 * HTTP/2 over TLS: sidekerb beside nginx and a bare http-proxy-3, and callers with tokens beside sidekerb
 * without a cache (document 001 of the sources, whose figures are of gRPC).
 */

import { join } from 'node:path';
import { jwtClient } from '../callers.ts';
import { Child } from '../child.ts';
import { freePorts, type ProcessGroup } from '../process-group.ts';
import type { ScenarioSubject } from '../scenario-names.ts';
import { startHttp2Nginx } from '../subjects/nginx.ts';
import { createTokenLoad, startVariant, type TokenLoad } from './callers.ts';
import { type Contestant, parseWork, type Work } from './contestant.ts';
import { type KeyMaterial, makeCertificate } from './key-material.ts';
import { acceptsOn } from './probe.ts';
import type { Stage } from './stage.ts';

const LOAD = join(import.meta.dirname, '../load/http2.ts');
const PEER = join(import.meta.dirname, '../peers/http-proxy-3-h2.ts');
const READY_MS = 15_000;
const EXTRA_MS = 15_000;
const WARM_UPS = 3;

export interface Http2Load {
  readonly port: number;
  readonly clients: number;
  readonly streams: number;
  readonly seconds: number;
  /** File with the tokens of each client. */
  readonly tokens?: string;
}

export async function runHttp2(stage: Stage, load: Http2Load): Promise<Work> {
  const { tokens, ...numbers } = load;
  const args = Object.entries(numbers).flatMap(([name, value]) => [`--${name}`, String(value)]);
  const more = tokens === undefined ? [] : ['--tokens', tokens];
  const ms = load.seconds * 1000 + EXTRA_MS;
  return parseWork(await stage.runLoad(process.execPath, [LOAD, ...args, ...more], ms));
}

/** Of a listener that speaks HTTP/2 with this certificate. */
export const http2Settings = ({ certFile, keyFile }: KeyMaterial): { readonly tls: string } => ({
  tls: `{ cert: ${JSON.stringify(certFile)}, key: { file: ${JSON.stringify(keyFile)} } }\n    http2: true`,
});

/** A client for each connection, with sixteen streams at a time. */
export async function prepareHttp2(
  stage: Stage,
  group: ProcessGroup,
  {
    subjects,
    seconds,
  }: { readonly subjects: readonly ScenarioSubject[]; readonly seconds: number },
): Promise<Contestant[]> {
  const originPort = await stage.openOrigin();
  const keys = await makeCertificate(await group.makeFolder('http2-keys'), 'ec');
  const contestants: Contestant[] = [];
  for (const name of subjects) {
    const { port, pid } = await startServer(group, name, { originPort, keys });
    const run = (clients: number): Promise<Work> =>
      runHttp2(stage, { port, clients, streams: 16, seconds });
    contestants.push({ name, pid, warmUps: WARM_UPS, run });
  }
  return contestants;
}

async function startServer(
  group: ProcessGroup,
  name: ScenarioSubject,
  { originPort, keys }: { readonly originPort: number; readonly keys: KeyMaterial },
): Promise<{ readonly port: number; readonly pid: number }> {
  if (name === 'sidekerb') {
    const settings = { originPort, clients: 'none', ...http2Settings(keys) };
    const { port, child } = await startVariant(group, name, settings);
    return { port, pid: child.pid };
  }
  const [port = 0] = await freePorts(1);
  const folder = await group.makeFolder(name);
  const { proxy: core } = group.cores;
  const { certFile, keyFile } = keys;
  const starting =
    name === 'nginx-h2'
      ? startHttp2Nginx({ folder, port, openOriginPort: originPort, core, certFile, keyFile })
      : Child.start({
          name,
          command: process.execPath,
          args: [PEER, String(port), String(originPort), certFile, keyFile],
          core,
        });
  const child = await group.own(await starting);
  await child.until(() => acceptsOn(port), READY_MS);
  return { port, pid: child.pid };
}

/** One client with one token, or ten with two in turn; a stream at a time, as a call is. */
export async function prepareHttp2Tokens(
  stage: Stage,
  group: ProcessGroup,
  { clients, seconds }: { readonly clients: 1 | 10; readonly seconds: number },
): Promise<Contestant[]> {
  const load = await createTokenLoad(stage, { clients, perClient: clients === 1 ? 1 : 2 });
  const tokens = await createHttp2Tokens(stage, load, clients);
  const originPort = await stage.openOrigin();
  const keys = await makeCertificate(await group.makeFolder('http2-keys'), 'ec');
  const contestants: Contestant[] = [];
  for (const [name, mode] of [
    ['sidekerb', 'lru'],
    ['cache-off', 'off'],
  ] as const) {
    const settings = { originPort, clients: jwtClient(load.keys, mode), ...http2Settings(keys) };
    const { child, port } = await startVariant(group, name, settings);
    const run = (count: number): Promise<Work> =>
      runHttp2(stage, { port, clients: count, streams: 1, seconds, tokens });
    contestants.push({ name, pid: child.pid, warmUps: WARM_UPS, run });
  }
  return contestants;
}

/** The file of the tokens of each client. */
export function createHttp2Tokens(
  stage: Stage,
  { issuer }: TokenLoad,
  clients: number,
): Promise<string> {
  const perClient = clients === 1 ? 1 : 2;
  const tokens = Array.from({ length: clients }, (_, client) =>
    Array.from({ length: perClient }, (_turn, at) => issuer.token(`user-${client}-${at}`)),
  );
  return stage.write(`h2-tokens-${clients}.json`, JSON.stringify(tokens));
}
