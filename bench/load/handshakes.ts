/**
 * TLS handshakes, as many as a server does with so many in flight: each connection ends once both sides have
 * finished. Prints one line of JSON for `scenarios/contestant.ts`.
 */

import { connect, type SecureVersion } from 'node:tls';
import { parseArgs } from 'node:util';

const { values } = parseArgs({
  options: {
    port: { type: 'string' },
    version: { type: 'string' },
    resume: { type: 'boolean', default: false },
    seconds: { type: 'string' },
    'in-flight': { type: 'string' },
  },
});
const port = Number(values.port);
const seconds = Number(values.seconds);
const version = values.version === '1.2' ? 'TLSv1.2' : 'TLSv1.3';

/** The bench's own certificate; what is measured is the server's side. */
const OPTIONS = {
  host: '127.0.0.1',
  port,
  servername: 'localhost',
  rejectUnauthorized: false,
  minVersion: version as SecureVersion,
  maxVersion: version as SecureVersion,
};

interface Handshake {
  readonly ms: number;
  readonly resumed: boolean;
}

/** Until the server has had the last message of it, which the end of the connection follows. */
function handshake(session: Buffer | undefined): Promise<Handshake> {
  return new Promise((resolve, reject) => {
    const start = performance.now();
    let result: Handshake | undefined;
    const socket = connect({ ...OPTIONS, ...(session === undefined ? {} : { session }) }, () => {
      result = { ms: performance.now() - start, resumed: socket.isSessionReused() };
      socket.end();
    });
    socket.resume();
    socket.on('error', reject);
    socket.on('close', () => {
      if (result === undefined) reject(new Error('the connection ended before its handshake'));
      else resolve(result);
    });
  });
}

/** The first session that the server gives. */
function firstSession(): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const socket = connect(OPTIONS);
    socket.resume();
    socket.on('error', reject);
    socket.once('session', (session: Buffer) => {
      socket.end();
      resolve(session);
    });
  });
}

const session = values.resume ? await firstSession() : undefined;
const times: number[] = [];
const start = performance.now();
const end = start + seconds * 1000;
async function client(): Promise<void> {
  while (performance.now() < end) {
    const { ms, resumed } = await handshake(session);
    if (resumed !== values.resume) throw new Error(resumed ? 'was resumed' : 'was not resumed');
    times.push(ms);
  }
}
await Promise.all(Array.from({ length: Number(values['in-flight']) }, client));
const elapsed = (performance.now() - start) / 1000;
times.sort((a, b) => a - b);
const at = (share: number): number => times[Math.floor(times.length * share)] ?? 0;
process.stdout.write(
  `${JSON.stringify({ requests: times.length, seconds: elapsed, p50Ms: at(0.5), p99Ms: at(0.99) })}\n`,
);
