/**
 * HTTP/2 requests over TLS: so many clients, each with a connection of its own and so many streams at a
 * time, with tokens that take turns where there are any. Prints one line of JSON for
 * `scenarios/contestant.ts`.
 */

import { readFileSync } from 'node:fs';
import { type ClientHttp2Session, connect, type OutgoingHttpHeaders } from 'node:http2';
import { parseArgs } from 'node:util';

const { values } = parseArgs({
  options: {
    port: { type: 'string' },
    seconds: { type: 'string' },
    clients: { type: 'string' },
    streams: { type: 'string' },
    /** JSON: a list of tokens for each client. */
    tokens: { type: 'string' },
  },
});
const seconds = Number(values.seconds);
const url = `https://127.0.0.1:${values.port}`;
const tokens =
  values.tokens === undefined
    ? []
    : (JSON.parse(readFileSync(values.tokens, 'utf8')) as readonly (readonly string[])[]);

/** Milliseconds of every whole answer. */
const times: number[] = [];
const start = performance.now();
const end = start + seconds * 1000;

function open(): Promise<ClientHttp2Session> {
  return new Promise((resolve, reject) => {
    // The bench's own certificate.
    const session = connect(url, { rejectUnauthorized: false });
    session.once('connect', () => resolve(session));
    session.once('error', reject);
  });
}

function ask(session: ClientHttp2Session, headers: OutgoingHttpHeaders): Promise<void> {
  return new Promise((resolve, reject) => {
    const began = performance.now();
    const stream = session.request(headers);
    let status = 0;
    stream.on('response', (fields) => {
      status = Number(fields[':status']);
    });
    stream.on('error', reject);
    stream.on('close', () => {
      times.push(performance.now() - began);
      if (status === 200) resolve();
      else reject(new Error(`status ${status}`));
    });
    stream.resume();
  });
}

async function client(index: number): Promise<void> {
  const session = await open();
  const own = tokens[index] ?? [];
  const heads: OutgoingHttpHeaders[] =
    own.length === 0
      ? [{ ':path': '/' }]
      : own.map((token) => ({ ':path': '/', authorization: `Bearer ${token}` }));
  let turn = 0;
  const flow = async (): Promise<void> => {
    while (performance.now() < end) {
      turn = (turn + 1) % heads.length;
      await ask(session, heads[turn] ?? {});
    }
  };
  await Promise.all(Array.from({ length: Number(values.streams) }, flow));
  session.destroy();
}

await Promise.all(Array.from({ length: Number(values.clients) }, (_, index) => client(index)));
const elapsed = (performance.now() - start) / 1000;
times.sort((a, b) => a - b);
const at = (share: number): number => times[Math.floor(times.length * share)] ?? 0;
process.stdout.write(
  `${JSON.stringify({ requests: times.length, seconds: elapsed, p50Ms: at(0.5), p99Ms: at(0.99) })}\n`,
);
