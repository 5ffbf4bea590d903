/**
 * One random run of callers through the real daemon against an origin that misbehaves at random, and
 * the judgement over it. All choices come from a seed; the order in which sockets are served does not,
 * so a seed makes a failure likely again and not certain.
 */

import assert from 'node:assert/strict';
import type { RawClient, RawResponse } from '../support/raw-client.ts';
import type { ResponseScript, ScriptedUpstreamOptions } from '../support/upstream-options.ts';
import {
  patterned,
  sha256,
  startWorld,
  TestCaller,
  USERS,
  type Who,
  type World,
} from '../flow/login-world.ts';

/** Numbers below `n` from a seed (mulberry32). */
export function randomNumbers(seed: number): (n: number) => number {
  let state = seed >>> 0;
  return (n) => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) % n;
  };
}

type Random = ReturnType<typeof randomNumbers>;

const WHO: readonly Who[] = ['alice', 'alice', 'bob', 'bob', 'open', 'plain'];
const METHODS = ['GET', 'POST', 'POST', 'PUT', 'HEAD', 'DELETE'] as const;
const SIZES = [0, 1, 1000, 4095, 16_384, 65_535, 65_536, 65_537, 150_000] as const;
/** How the origin answers a request; the caller chooses by a word of the path. */
const ANSWERS = [
  'ok',
  'ok',
  'ok',
  'ok',
  'close',
  'silent',
  'reset',
  'lost',
  'chunked',
  'large',
  'bare-401',
  'early',
] as const;
const CALLERS = 8;
const REQUESTS_EACH = 12;

interface Planned {
  readonly id: number;
  readonly who: Who;
  readonly method: string;
  readonly answer: (typeof ANSWERS)[number];
  readonly body: Buffer | undefined;
  readonly framing: 'counted' | 'chunked';
  /** The caller goes away: after the head and half of the body, or after all of it. */
  readonly leaves: 'no' | 'half' | 'sent';
}

interface Outcome {
  readonly planned: Planned;
  /** Undefined: the caller left, or its connection ended. */
  readonly answer: RawResponse | undefined;
}

/** What a run brought about, so that a test can tell whether it proved anything. */
export interface RunFacts {
  readonly requests: number;
  readonly statuses: ReadonlyMap<number, number>;
  readonly logins: number;
  readonly sockets: number;
}

/** Runs once and throws on the first broken promise. */
export async function runInterleaving(seed: number): Promise<RunFacts> {
  const random = randomNumbers(seed);
  await using world = await startWorld({
    pool: `maxConnections: ${5 + random(8)}, maxPerPrincipal: ${2 + random(4)}, maxIdle: ${1 + random(4)}, maxHandshakes: ${1 + random(4)}, maxRequests: ${random(3) * 5}, waitTimeout: 3s`,
    timeouts: 'handshake: 3s, response: 5s',
    guard: 'rejections: 100',
    upstream: randomOrigin(random),
  });
  let next = 0;
  const outcomes: Outcome[] = [];
  const callers = Array.from({ length: CALLERS }, async () => {
    const line = new CallerLine(world);
    for (let n = 0; n < REQUESTS_EACH; n += 1) {
      next += 1;
      const planned = plan(random, next);
      outcomes.push({ planned, answer: await act(line, planned) });
      if (random(3) === 0) await line.hangUp();
    }
    await line.hangUp();
  });
  await Promise.all(callers);
  for (const outcome of outcomes) judge(world, outcome);
  await assertBooks(world);
  const statuses = new Map<number, number>();
  for (const { answer } of outcomes) {
    const status = answer?.status ?? 0;
    statuses.set(status, (statuses.get(status) ?? 0) + 1);
  }
  const { journal } = world.upstream;
  return {
    requests: outcomes.length,
    statuses,
    logins: world.upstream.count('type3'),
    sockets: journal.sockets.length,
  };
}

function randomOrigin(random: Random): ScriptedUpstreamOptions {
  const forgetAfter = [Infinity, 1, 2, 5][random(4)] ?? Infinity;
  const closeAfter = [undefined, undefined, 3, 7][random(4)];
  const faults = random(2) === 0;
  return {
    forgetAfter,
    ...(closeAfter === undefined ? {} : { idle: { closeAfter } }),
    body: {
      ...(random(3) === 0 ? { earlyChallenge: true } : {}),
      expect: (['continue', 'ignore', 'continue-always'] as const)[random(3)] ?? 'continue',
    },
    splitEveryByte: random(12) === 0,
    login: {
      type1: () => (faults && random(12) === 0 ? (random(2) === 0 ? 'fin' : 'reset') : 'challenge'),
      type3: () => {
        const drawn = faults ? random(20) : 9;
        if (drawn === 0) return 'bare';
        if (drawn === 1) return random(2) === 0 ? 'fin' : 'reset';
        return drawn === 2 ? 'close' : 'verify';
      },
      beforeAnswer: () => turns(random(4)),
    },
    handler: async ({ target, user }) => {
      await turns(random(4));
      return answerBy(target.split('/')[3] ?? 'ok', user);
    },
  };
}

function answerBy(word: string, user: string | undefined): ResponseScript {
  const fields = [['X-User', user ?? '']] as const;
  switch (word) {
    case 'close':
      return { fields, body: 'bye', after: 'fin' };
    case 'silent':
      return { fields, body: 'bye', after: 'fin', silent: true };
    case 'reset':
      return { raw: '', after: 'reset' };
    case 'lost':
      return { raw: 'HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf', after: 'fin' };
    case 'chunked':
      return { fields, body: 'x'.repeat(5000), framing: 'chunked' };
    case 'large':
      return { fields, body: Buffer.alloc(400_000, 120) };
    case 'bare-401':
      return { status: 401, fields, body: 'no' };
    case 'early':
      return { fields, body: 'ok', interim: [{ status: 103 }] };
    default:
      return { fields, body: 'ok' };
  }
}

function plan(random: Random, id: number): Planned {
  const method = METHODS[random(METHODS.length)] ?? 'GET';
  const hasBody = method === 'POST' || method === 'PUT';
  const leaves = random(10);
  return {
    id,
    who: WHO[random(WHO.length)] ?? 'alice',
    method,
    answer: ANSWERS[random(ANSWERS.length)] ?? 'ok',
    body: hasBody ? patterned(SIZES[random(SIZES.length)] ?? 0) : undefined,
    framing: random(2) === 0 ? 'counted' : 'chunked',
    leaves: leaves === 0 ? 'half' : leaves === 1 ? 'sent' : 'no',
  };
}

/** The connection of one caller, kept from request to request and from principal to principal. */
class CallerLine {
  readonly #world: World;
  #client: RawClient | undefined;

  constructor(world: World) {
    this.#world = world;
  }

  async as(who: Who): Promise<TestCaller> {
    this.#client ??= await this.#world.daemon.connect();
    return new TestCaller(who, this.#client, this.#world.daemon.authority());
  }

  async hangUp(): Promise<void> {
    const client = this.#client;
    this.#client = undefined;
    await client?.[Symbol.asyncDispose]();
  }
}

async function act(line: CallerLine, planned: Planned): Promise<RawResponse | undefined> {
  const { who, method, body, framing, id, answer, leaves } = planned;
  const caller = await line.as(who);
  const path = `${answer}/${id}`;
  if (leaves === 'half' && body !== undefined) {
    await sendHalf(caller, { ...planned, body }, path);
    await line.hangUp();
    return undefined;
  }
  await caller.send(method, { path, ...(body === undefined ? {} : { body, framing }) });
  if (leaves === 'sent') {
    caller.client.reset();
    await line.hangUp();
    return undefined;
  }
  try {
    const response = await caller.client.response(method, 15_000);
    if (response.field('Connection') === 'close') await line.hangUp();
    return response;
  } catch (error) {
    // The daemon cuts an answer that the origin cut; anything slower is a failure.
    if (error instanceof Error && error.message.startsWith('did not happen')) throw error;
    await line.hangUp();
    return undefined;
  }
}

async function sendHalf(
  caller: TestCaller,
  { method, body, framing }: Planned & { readonly body: Buffer },
  path: string,
): Promise<void> {
  const length = String(body.length + 10);
  const fields: Record<string, string> =
    framing === 'counted' ? { 'Content-Length': length } : { 'Transfer-Encoding': 'chunked' };
  await caller.send(method, { path, fields });
  if (framing === 'chunked') await caller.client.send(`${(body.length + 10).toString(16)}\r\n`);
  await caller.client.send(body);
  caller.client.reset();
}

/** Codes that promise that nothing was executed. */
const UNEXECUTED =
  /credential-rejected|body-not-replayable|guard-open|pool-|connect-failed|handshake-|challenge-malformed|no-common-scheme/;

function judge(world: World, { planned, answer }: Outcome): void {
  const { id, who, method, body, leaves } = planned;
  const label = `${method} ${planned.answer}/${id} of ${who}`;
  const runs = world.executed.filter(
    (run) => run.target === `/${who}/${planned.answer}/${id}` && run.method === method,
  );
  const safe = method === 'GET' || method === 'HEAD';
  // PUT and DELETE may be repeated on another connection (RFC 9110 9.2.2).
  const idempotent = safe || method === 'PUT' || method === 'DELETE';
  assert.ok(runs.length <= (idempotent ? 2 : 1), `${label} ran ${runs.length} times`);
  if (leaves === 'half' && body !== undefined) assert.equal(runs.length, 0, `${label} was cut`);
  const user = who === 'alice' || who === 'bob' ? USERS[who] : undefined;
  for (const run of runs) {
    assert.equal(run.user, user, `${label} ran as ${run.user}`);
    assert.equal(run.bodySha256, sha256(body ?? Buffer.alloc(0)), `${label}: other body`);
  }
  if (answer === undefined) return;
  const details = answer.field('Proxy-Status');
  if (details === undefined) {
    assert.ok(runs.length >= 1, `${label}: ${answer.status} of nobody`);
    assert.equal(answer.field('X-User'), user ?? '', label);
  } else if (UNEXECUTED.test(details)) {
    assert.equal(runs.length, 0, `${label}: executed, yet ${details}`);
  }
  if (answer.status < 300 && !idempotent) assert.equal(runs.length, 1, label);
}

async function assertBooks(world: World): Promise<void> {
  const metrics = await world.daemon.measured(
    (seen) =>
      seen.sum('sidekerb_upstream_connections', { state: 'active' }) === 0 &&
      seen.sum('sidekerb_upstream_connections', { state: 'connecting' }) === 0 &&
      seen.sum('sidekerb_pool_waiters') === 0,
    'nothing in work',
  );
  assert.equal(metrics.sum('sidekerb_invariant_violations_total'), 0);
  assert.ok(!/"level":"error"/.test(world.daemon.logText), world.daemon.logText);
}

async function turns(count: number): Promise<void> {
  for (let n = 0; n < count; n += 1) await new Promise((resolve) => void setImmediate(resolve));
}
