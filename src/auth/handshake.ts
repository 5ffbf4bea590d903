/**
 * The legs of a login that carry no body, and the judgement of its last answer; the same for an origin
 * (401) and for a parent proxy (407).
 *
 * 1. The context's first token goes out; the answer carries the peer's. A context that is complete
 *    by then has one token only, and no leg is sent here.
 * 2. Further legs follow while the context wants them, at most `MAX_LEGS`.
 * 3. The last token is not sent here: it goes out with the real request, whose answer
 *    `judgeFinalAnswer` names (config.md, "401 and 407 of the upstream", (a) and (c)).
 *
 * Writing legs, draining their answers and holding them on one socket is the exchange's work. A failed
 * login spends its connection: whoever opened it closes it, and never sends these tokens again (R32).
 */
import { ProxyError, type ErrorCode } from '../errors.ts';
import { decodeToken68, type Challenge } from '../http/challenge.ts';
import type { SecurityContext } from './security-context.ts';
import { decodeNegToken } from './spnego/tokens.ts';

/** More legs than any mechanism needs; ends a peer that always asks for another (R31). */
const MAX_LEGS = 5;

/** Largest token of a peer: 64 KiB of base64, a whole head. A mechanism may take less. */
const MAX_PEER_TOKEN_BYTES = 48 * 1024;

const UNAUTHORIZED = 401;
const PROXY_AUTHENTICATION_REQUIRED = 407;

/** A scheme with tokens, as in a `Challenge`. */
export type LoginScheme = 'ntlm' | 'negotiate' | 'basic' | 'digest';

/** The status with which a hop asks for a login: 401 of an origin, 407 of a parent proxy. */
export type ChallengeStatus = 401 | 407;

/** The answer to a leg, drained. */
export interface LegAnswer {
  readonly status: number;
  /** Its status is the one with which this hop asks for a login. */
  readonly asks: boolean;
  /** Of this hop's own field only: an origin's `Proxy-Authenticate` is nobody's business here. */
  readonly challenges: readonly Challenge[];
  /** The connection can carry another message. */
  readonly reusable: boolean;
}

/** One connection, for the time of a login. */
export interface MessageExchange {
  /**
   * Writes one request without a body, with `credentials` in this hop's field, and drains the answer.
   * Every call uses the same socket (R34, R35); rejects with a `ProxyError` when it cannot, and with
   * `proxy-auth-from-origin` for a 407 of an origin (R26).
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
 * ends, too many legs), `no-common-scheme`, `challenge-malformed`, and whatever the exchange and the
 * context reject with. None of these may be retried on this connection.
 */
export async function startLogin(
  exchange: MessageExchange,
  context: SecurityContext,
): Promise<LoginStart> {
  let token = await context.step();
  for (let legs = 1; !context.complete; legs += 1) {
    if (legs > MAX_LEGS) throw failure('handshake-failed', `no end after ${MAX_LEGS} legs`);
    const answer = await exchange.leg(formatCredentials(context, token));
    if (!answer.asks) {
      return { kind: 'unchallenged', status: answer.status, reusable: answer.reusable };
    }
    token = await context.step(peerToken(answer, context.scheme));
    if (context.complete) return finalLeg(context, token, legs + 1);
  }
  return finalLeg(context, token, 1);
}

function finalLeg(context: SecurityContext, token: Uint8Array, legs: number): LoginStart {
  return { kind: 'final-leg', credentials: formatCredentials(context, token), legs };
}

/** The token in the peer's challenge of our scheme, on a connection that lives on. */
function peerToken(answer: LegAnswer, scheme: string): Uint8Array {
  if (!answer.challenges.some((challenge) => isOurs(challenge, scheme))) {
    throw failure('no-common-scheme', `${scheme} is not offered`);
  }
  const token = finalToken(scheme, answer.challenges);
  if (token === undefined) {
    throw failure('handshake-failed', `${scheme} asked for again without a token`);
  }
  if (token === 'malformed') {
    throw failure('challenge-malformed', `${scheme} token is doubled, too long or not base64`);
  }
  // The challenge is bound to this connection; on another one the answer would be worthless (E22).
  if (!answer.reusable) throw failure('handshake-failed', 'the connection ends at the challenge');
  return token;
}

/**
 * The token that an answer of any status carries for `scheme`: undefined when there is none,
 * `malformed` when there are two, or it is too long or not base64 (hostile rows A10, A11).
 */
export function finalToken(
  scheme: string,
  challenges: readonly Challenge[],
): Uint8Array | undefined | 'malformed' {
  const [ours, ...more] = challenges.filter(
    (challenge) => isOurs(challenge, scheme) && !isBare(challenge),
  );
  if (ours === undefined) return undefined;
  if (more.length > 0 || ours.token68 === undefined) return 'malformed';
  return decodeToken68(ours.token68, MAX_PEER_TOKEN_BYTES) ?? 'malformed';
}

/**
 * What the answer to the final leg says of the login:
 * - `accepted`: any status but 401 and 407;
 * - `rejected`: the hop asks for our scheme again, with or without a token. A further token is not
 *   answered: the exchange ends here (R31);
 * - `denied`: it asks for Negotiate again, but its token says that the login is completed: the
 *   credential is good, and not enough for this request;
 * - `origin-refused`: it asks without our scheme: the origin's word about this user, passed on
 *   unchanged. A 407 of an origin is here too, as it says nothing of the login; it becomes 502 elsewhere.
 */
export type FinalVerdict = 'accepted' | 'rejected' | 'denied' | 'origin-refused';

/**
 * Judges the answer to the final leg of a login with `scheme` on a hop that asks with `asksWith`. A 401
 * that comes through a parent is none of the parent's: its login was accepted.
 */
export function judgeFinalAnswer(
  scheme: LoginScheme,
  status: number,
  challenges: readonly Challenge[],
  asksWith: ChallengeStatus = UNAUTHORIZED,
): FinalVerdict {
  if (status === PROXY_AUTHENTICATION_REQUIRED && asksWith !== status) return 'origin-refused';
  if (status !== asksWith) return 'accepted';
  if (!challenges.some((challenge) => isOurs(challenge, scheme))) return 'origin-refused';
  const token = scheme === 'negotiate' ? finalToken(scheme, challenges) : undefined;
  return token instanceof Uint8Array && saysCompleted(token) ? 'denied' : 'rejected';
}

function saysCompleted(token: Uint8Array): boolean {
  try {
    const reply = decodeNegToken(token);
    return reply.kind === 'resp' && reply.state === 'accept-completed';
  } catch {
    return false;
  }
}

function isOurs(challenge: Challenge, scheme: string): boolean {
  return challenge.scheme === scheme.toLowerCase();
}

function isBare(challenge: Challenge): boolean {
  return challenge.token68 === undefined && challenge.params === undefined;
}

function formatCredentials(context: SecurityContext, token: Uint8Array): string {
  // Parameters, not a token68 (RFC 9110 11.2).
  const encoding = context.scheme === 'Digest' ? 'latin1' : 'base64';
  return `${context.scheme} ${Buffer.from(token).toString(encoding)}`;
}

function failure(code: ErrorCode, reason: string): ProxyError {
  return new ProxyError(code, `login: ${reason}`, { side: 'upstream', stage: 'handshake' });
}
