/**
 * The legs of a connection-scoped login that carry no body, and the judgement of its last answer.
 *
 * 1. The context's first token goes out; the answer carries the peer's.
 * 2. Further legs follow while the context wants them, at most `MAX_LEGS`.
 * 3. The last token is not sent here: it goes out with the real request, whose answer
 *    `judgeFinalAnswer` names (config.md, "401 and 407 of the upstream", (a) and (c)).
 *
 * Writing legs, draining their answers and holding them on one socket is the exchange's work. A failed
 * login spends its connection: whoever opened it closes it, and never sends these tokens again (R32).
 */
import { ProxyError, type ErrorCode } from '../errors.ts';
import { decodeToken68, type Challenge } from '../http/challenge.ts';
import { MAX_TOKEN_BYTES } from './ntlm/messages.ts';
import type { SecurityContext } from './security-context.ts';

/** More legs than any mechanism needs; ends a peer that always asks for another (R31). */
const MAX_LEGS = 5;

const UNAUTHORIZED = 401;
const PROXY_AUTHENTICATION_REQUIRED = 407;

/** The answer to a leg, drained. */
export interface LegAnswer {
  readonly status: number;
  /** Of `WWW-Authenticate` only: an origin's `Proxy-Authenticate` is nobody's business here. */
  readonly challenges: readonly Challenge[];
  /** The connection can carry another message. */
  readonly reusable: boolean;
}

/** One connection, for the time of a login. */
export interface MessageExchange {
  /**
   * Writes one request without a body, with `credentials` as its Authorization, and drains the answer.
   * Every call uses the same socket (R34, R35); rejects with a `ProxyError` when it cannot.
   */
  leg(credentials: string): Promise<LegAnswer>;
}

export type LoginStart =
  | {
      readonly kind: 'final-leg';
      /** Goes with the real request, once (R32). */
      readonly credentials: string;
      /** Messages of this login, the final one included. */
      readonly legs: number;
    }
  | {
      /** Answered without asking for a login: the real request goes out plain. */
      readonly kind: 'unchallenged';
      readonly status: number;
      readonly reusable: boolean;
    };

/**
 * Runs the legs before the real request. Throws `handshake-failed` (asked to start over, the connection
 * ends, too many legs), `no-common-scheme`, `challenge-malformed`, `proxy-auth-from-origin` (R26), and
 * whatever the exchange rejects with. None of these may be retried on this connection.
 */
export async function startLogin(
  exchange: MessageExchange,
  context: SecurityContext,
): Promise<LoginStart> {
  let token = context.step();
  for (let legs = 1; legs <= MAX_LEGS; legs += 1) {
    const answer = await exchange.leg(formatCredentials(context, token));
    if (answer.status === PROXY_AUTHENTICATION_REQUIRED) {
      throw failure('proxy-auth-from-origin', 'the origin asks as if it were a proxy');
    }
    if (answer.status !== UNAUTHORIZED) {
      return { kind: 'unchallenged', status: answer.status, reusable: answer.reusable };
    }
    token = context.step(peerToken(answer, context.scheme));
    if (context.complete) {
      return {
        kind: 'final-leg',
        credentials: formatCredentials(context, token),
        legs: legs + 1,
      };
    }
  }
  throw failure('handshake-failed', `no end after ${MAX_LEGS} legs`);
}

/** The token in the peer's challenge of our scheme, on a connection that lives on. */
function peerToken(answer: LegAnswer, scheme: string): Uint8Array {
  const ours = answer.challenges.filter((challenge) => isOurs(challenge, scheme));
  if (ours.length === 0) throw failure('no-common-scheme', `${scheme} is not offered`);
  const [challenge, ...more] = ours.filter((candidate) => !isBare(candidate));
  if (challenge === undefined) {
    throw failure('handshake-failed', `${scheme} asked for again without a token`);
  }
  if (more.length > 0) throw failure('challenge-malformed', `two ${scheme} tokens in one answer`);
  const token = challenge.token68 && decodeToken68(challenge.token68, MAX_TOKEN_BYTES);
  if (!token) throw failure('challenge-malformed', `${scheme} token is not base64 or is too long`);
  // The challenge is bound to this connection; on another one the answer would be worthless (E22).
  if (!answer.reusable) throw failure('handshake-failed', 'the connection ends at the challenge');
  return token;
}

/**
 * What the answer to the final leg says of the login:
 * - `accepted`: any status but 401 and 407;
 * - `rejected`: 401 that asks for our scheme again, with or without a token. A further token is not
 *   answered: the exchange ends here (R31);
 * - `origin-refused`: 401 without our scheme, the origin's word about this user, passed on unchanged.
 *   A 407 of an origin is here too, as it says nothing of the login; it becomes 502 elsewhere.
 */
export type FinalVerdict = 'accepted' | 'rejected' | 'origin-refused';

/** Judges the answer to the final leg of a login with `scheme`. */
export function judgeFinalAnswer(
  scheme: 'ntlm',
  status: number,
  challenges: readonly Challenge[],
): FinalVerdict {
  if (status === PROXY_AUTHENTICATION_REQUIRED) return 'origin-refused';
  if (status !== UNAUTHORIZED) return 'accepted';
  return challenges.some((challenge) => isOurs(challenge, scheme)) ? 'rejected' : 'origin-refused';
}

function isOurs(challenge: Challenge, scheme: string): boolean {
  return challenge.scheme === scheme.toLowerCase();
}

function isBare(challenge: Challenge): boolean {
  return challenge.token68 === undefined && challenge.params === undefined;
}

function formatCredentials(context: SecurityContext, token: Uint8Array): string {
  return `${context.scheme} ${Buffer.from(token).toString('base64')}`;
}

function failure(code: ErrorCode, reason: string): ProxyError {
  return new ProxyError(code, `login: ${reason}`, { side: 'upstream', stage: 'handshake' });
}
