/**
 * The Kerberos provider of sidekerb alone: makes tokens for HTTP/localhost, so many at a time, and prints
 * one line of JSON with how many and what the process and its helper used. The first tokens, which
 * fetch the tickets, do not count.
 */

import { parseArgs } from 'node:util';
import { createKerberosProvider } from '../../src/auth/kerberos/kerberos-provider.ts';
import { systemClock } from '../../src/clock.ts';
import { DeadlineWheel } from '../../src/deadlines.ts';
import { createKerberosIdentity } from '../../src/identity/identity.ts';
import { SecretVersions } from '../../src/identity/secret-version.ts';
import { noLog } from '../../src/log/log.ts';
import { treeCpuSeconds } from '../process-tree.ts';

const SPN = 'HTTP/localhost';
const WARM_SECONDS = 0.5;
const DEADLINE_MS = 10_000;

const { values } = parseArgs({
  options: {
    krb5: { type: 'string', default: '' },
    keytab: { type: 'string', default: '' },
    name: { type: 'string', default: '' },
    'in-flight': { type: 'string', default: '1' },
    seconds: { type: 'string', default: '1' },
  },
});

const identity = createKerberosIdentity({
  principal: 'bench',
  name: values.name,
  source: 'keytab',
  credential: values.keytab,
  version: new SecretVersions().version('keytab', Buffer.from(values.keytab)),
});
const deadlines = new DeadlineWheel(systemClock);
deadlines.start();
const provider = createKerberosProvider({
  identities: [identity],
  passwords: () => undefined,
  krb5Config: values.krb5,
  deadlines,
  clock: systemClock,
  log: noLog,
  deadlineMs: DEADLINE_MS,
});
const { signal } = new AbortController();

/** Makes tokens for so long; resolves with how long each took. */
async function makeTokens(seconds: number): Promise<number[]> {
  const end = performance.now() + seconds * 1000;
  const latencies: number[] = [];
  const lane = async (): Promise<void> => {
    for (let at = performance.now(); at < end; at = performance.now()) {
      const made = await provider.initiate(identity, SPN, signal);
      if (made.token.length === 0) throw new Error('an empty token');
      made.dispose();
      latencies.push(performance.now() - at);
    }
  };
  await Promise.all(Array.from({ length: Number(values['in-flight']) }, lane));
  return latencies;
}

await makeTokens(WARM_SECONDS);
const before = { cpu: treeCpuSeconds(process.pid), at: performance.now() };
const latencies = await makeTokens(Number(values.seconds));
const seconds = (performance.now() - before.at) / 1000;
const cpuSeconds = treeCpuSeconds(process.pid) - before.cpu;
latencies.sort((a, b) => a - b);
const quantile = (part: number): number => latencies[Math.floor(latencies.length * part)] ?? 0;
const requests = latencies.length;
const result = { requests, seconds, cpuSeconds, p50Ms: quantile(0.5), p99Ms: quantile(0.99) };
process.stdout.write(`${JSON.stringify(result)}\n`);
await provider.close();
deadlines.stop();
