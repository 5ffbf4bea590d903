/**
 * Feeds mutated messages to the parsers of src/wire and checks each outcome:
 * 1. whole, cut at random, and between other guard bytes it is the same;
 * 2. what is accepted, llhttp accepts too, with the same line, body and end, except `KNOWN_DIFFERENCES`;
 * 3. what would be forwarded is one message for llhttp, with the same body, and nothing behind it.
 *
 * Run for long: `node test/property/wire-fuzz.ts 1000000 [seed]`.
 */
import assert from 'node:assert/strict';
import { pathToFileURL } from 'node:url';
import { METHODS } from 'node:http';
import { latin1, readRequest, readResponse } from '../unit/wire/support.ts';
import type { Feeding, Message, Outcome } from '../unit/wire/support.ts';
import { askLlhttp, STOPPED } from './wire-llhttp.ts';
import type { SecondOpinion } from './wire-llhttp.ts';
import { makeRequest, makeResponse, Random } from './wire-grammar.ts';

export interface FuzzReport {
  readonly seed: number;
  readonly messages: number;
  readonly acceptedRequests: number;
  readonly acceptedResponses: number;
  readonly withChunks: number;
  /** How often each known difference was met. */
  readonly differences: ReadonlyMap<string, number>;
}

/**
 * What the parsers accept and llhttp does not, with the reason why that is right. Where `cutOut` says
 * so, the part in question is not forwarded, and llhttp must accept what is.
 */
const KNOWN_DIFFERENCES: readonly {
  readonly name: string;
  readonly cutOut: boolean;
  readonly holds: (message: Message, opinion: SecondOpinion, wire: string) => boolean;
}[] = [
  {
    name: 'llhttp has a closed list of methods; others are forwarded as sent (C22)',
    cutOut: false,
    holds: ({ head }, { code }) =>
      code === 'HPE_INVALID_METHOD' && !METHODS.includes(String(head['method'])),
  },
  {
    name: 'the grammar inside a chunk extension is not checked, the extension is cut out (C9)',
    cutOut: true,
    holds: ({ head }, { code }, wire) =>
      head['chunked'] === true &&
      ['HPE_STRICT', 'HPE_INVALID_CHUNK_SIZE', STOPPED].includes(code ?? '') &&
      /^[0-9a-f]+;/im.test(wire.slice(Number(head['headEnd']))),
  },
];

interface Round {
  readonly seed: number;
  readonly report: { -readonly [K in keyof FuzzReport]: FuzzReport[K] };
  readonly differences: Map<string, number>;
}

/** Throws at the first violation, with the seed and the bytes in the message. */
export function fuzz(messages: number, seed: number): FuzzReport {
  const differences = new Map<string, number>();
  const report = {
    seed,
    messages,
    acceptedRequests: 0,
    acceptedResponses: 0,
    withChunks: 0,
    differences,
  };
  const round = { seed, report, differences };
  for (let i = 0; i < messages; i += 1) {
    const random = new Random(seed + i);
    if (i % 2 === 0) fuzzRequest(random, round, seed + i);
    else fuzzResponse(random, round, seed + i);
  }
  return report;
}

function fuzzRequest(random: Random, round: Round, seed: number): void {
  const bytes = latin1(makeRequest(random));
  explain(seed, bytes, () => {
    const outcome = readInAllWays(readRequest, bytes, {}, random);
    if (outcome.kind !== 'message') return;
    round.report.acceptedRequests += 1;
    if (outcome.head['chunked'] === true) round.report.withChunks += 1;
    const { method, target } = outcome.head;
    const facts = (opinion: SecondOpinion): void => {
      assert.equal(opinion.method, method);
      assert.equal(opinion.target, target);
    };
    compare('request', bytes, outcome, { round, facts });
  });
}

function fuzzResponse(random: Random, round: Round, seed: number): void {
  const bytes = latin1(makeResponse(random));
  const toHead = random.chance(10);
  explain(seed, bytes, () => {
    const outcome = readInAllWays(readResponse, bytes, { toHead }, random);
    if (outcome.kind !== 'message') return;
    round.report.acceptedResponses += 1;
    if (outcome.head['chunked'] === true) round.report.withChunks += 1;
    const { status } = outcome.head;
    const facts = (opinion: SecondOpinion): void => assert.equal(opinion.status, status);
    const noBody = toHead || Number(status) < 200 || status === 204 || status === 304;
    compare('response', bytes, outcome, { round, facts, noBody });
  });
}

function readInAllWays(
  read: (bytes: Buffer, feeding?: Feeding) => Outcome,
  bytes: Buffer,
  feeding: Feeding,
  random: Random,
): Outcome {
  const whole = read(bytes, feeding);
  const cuts = Array.from({ length: 1 + random.below(4) }, () => random.below(bytes.length + 1));
  cuts.sort((a, b) => a - b);
  const poison = random.pick([0x0a, 0x0d, 0x30, 0x00]);
  assert.deepEqual(read(bytes, { ...feeding, cuts, poison }), whole, `cut at ${cuts.join()}`);
  return whole;
}

interface Comparison {
  readonly round: Round;
  readonly facts: (opinion: SecondOpinion) => void;
  readonly noBody?: boolean;
}

function compare(
  kind: 'request' | 'response',
  bytes: Buffer,
  outcome: Message,
  how: Comparison,
): void {
  const noBody = how.noBody === true;
  const own = bytes.subarray(0, outcome.end);
  const opinion = askLlhttp(kind, own, { noBody, ends: outcome.untilClose });
  if (opinion.kind === 'refused') {
    const wire = own.toString('latin1');
    const known = KNOWN_DIFFERENCES.find(({ holds }) => holds(outcome, opinion, wire));
    if (known === undefined) assert.fail(`llhttp refuses it: ${opinion.code}`);
    how.round.differences.set(known.name, (how.round.differences.get(known.name) ?? 0) + 1);
    if (!known.cutOut) return;
  } else {
    assert.equal(opinion.kind, 'message', 'llhttp waits for more');
    assert.equal(opinion.body, outcome.body);
    how.facts(opinion);
    if (!outcome.untilClose) {
      const shorter = askLlhttp(kind, own.subarray(0, -1), { noBody });
      assert.equal(shorter.kind, 'more', 'llhttp sees the end earlier');
    }
  }
  const start = Number(outcome.head['headStart']);
  const head = bytes.toString('latin1', start, Number(outcome.head['headEnd']));
  const forwarded = askLlhttp(kind, latin1(head + outcome.forwarded), {
    noBody,
    ends: outcome.untilClose,
  });
  assert.equal(forwarded.kind, 'message', `forwarded: ${forwarded.code ?? forwarded.kind}`);
  assert.equal(forwarded.body, outcome.body);
}

function explain(seed: number, bytes: Buffer, check: () => void): void {
  try {
    check();
  } catch (cause) {
    const text = JSON.stringify(bytes.toString('latin1'));
    throw new Error(`seed ${seed}: ${text}: ${cause instanceof Error ? cause.message : ''}`, {
      cause,
    });
  }
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  const messages = Number(process.argv[2] ?? '100000');
  const seed = Number(process.argv[3] ?? Date.now() % 1_000_000_000);
  console.log(`seed ${seed}, ${messages} messages`);
  console.log(fuzz(messages, seed));
}
