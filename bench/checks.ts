/**
 * What must be true for the numbers to mean something: the origin really asks for a login, sidekerb
 * really logged in and reused what it had, and every subject hands on whole answers.
 */

import { Agent, request } from 'node:http';
import { requestBody, requestFields, type BenchCase } from './cases.ts';
import type { RunningSubject } from './world.ts';

const ANSWER_MS = 5_000;

export interface Answer {
  readonly status: number;
  readonly body: Buffer;
  /** Size of the head as an origin would write it, near enough for a bound. */
  readonly headBytes: number;
}

/** One request of a case to a port on 127.0.0.1, on a connection of its own. */
export async function ask(port: number, one: BenchCase): Promise<Answer> {
  const body = requestBody(one);
  const answered = Promise.withResolvers<Answer>();
  const call = request(
    {
      host: '127.0.0.1',
      port,
      path: one.path,
      method: one.method,
      headers: {
        ...requestFields(one),
        ...(body === undefined ? {} : { 'content-length': body.length }),
      },
      agent: new Agent({ keepAlive: false }),
      signal: AbortSignal.timeout(ANSWER_MS),
    },
    (answer) => {
      const parts: Buffer[] = [];
      answer.on('data', (part: Buffer) => parts.push(part));
      answer.on('error', answered.reject);
      answer.on('end', () =>
        answered.resolve({
          status: answer.statusCode ?? 0,
          body: Buffer.concat(parts),
          headBytes: answer.rawHeaders.join('  ').length,
        }),
      );
    },
  );
  call.on('error', answered.reject);
  call.end(body);
  return answered.promise;
}

/** Throws when a subject's answer to a case is not the origin's. Resolves with the origin's. */
export async function checkAnswers(
  one: BenchCase,
  originPort: number,
  subjects: readonly RunningSubject[],
): Promise<Answer> {
  const expected = await ask(originPort, one);
  if (expected.status !== 200) throw new Error(`${one.name}: the origin says ${expected.status}`);
  for (const { name, port } of subjects) {
    const answer = await ask(port, one);
    if (answer.status !== 200 || !answer.body.equals(expected.body)) {
      throw new Error(
        `${one.name}: ${name} answers ${answer.status} with ${answer.body.length} bytes, the origin 200 with ${expected.body.length}`,
      );
    }
  }
  return expected;
}

/** Throws when the origin of sidekerb serves somebody who has not logged in. */
export async function checkLoginIsAsked(originPort: number, one: BenchCase): Promise<void> {
  const { status } = await ask(originPort, one);
  if (status !== 401) throw new Error(`the origin of sidekerb says ${status} without a login`);
}

/** What sidekerb's metrics say of its logins and of its pool. */
export interface LoginProof {
  readonly logins: number;
  readonly failedLogins: number;
  /** Requests that found an authenticated connection. */
  readonly hits: number;
  readonly leases: number;
}

/** Reads /metrics; throws unless connections were logged in and reused. */
export async function proveLogins(adminPort: number): Promise<LoginProof> {
  const answer = await fetch(`http://127.0.0.1:${adminPort}/metrics`, {
    signal: AbortSignal.timeout(ANSWER_MS),
  });
  const proof = readLoginProof(await answer.text());
  if (proof.logins === 0) throw new Error('sidekerb logged in nowhere: its numbers mean nothing');
  if (proof.hits === 0) throw new Error('sidekerb reused no connection: its numbers mean nothing');
  return proof;
}

/** The counters of an exposition in Prometheus text format. */
export function readLoginProof(exposition: string): LoginProof {
  const ok = (labels: string): boolean => labels.includes('result="ok"');
  const hit = (labels: string): boolean => labels.includes('result="hit"');
  const handshakes = sum(exposition, 'sidekerb_handshakes_total', () => true);
  const logins = sum(exposition, 'sidekerb_handshakes_total', ok);
  return {
    logins,
    failedLogins: handshakes - logins,
    hits: sum(exposition, 'sidekerb_pool_lease_requests_total', hit),
    leases: sum(exposition, 'sidekerb_pool_lease_requests_total', () => true),
  };
}

function sum(exposition: string, metric: string, counts: (labels: string) => boolean): number {
  let total = 0;
  for (const [, labels = '', value] of exposition.matchAll(
    new RegExp(`^${metric}\\{([^}]*)\\} (\\S+)$`, 'gm'),
  )) {
    if (counts(labels)) total += Number(value);
  }
  return total;
}
