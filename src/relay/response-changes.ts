/**
 * Which lines of a response head change on the way to the caller, beside the hop-by-hop ones.
 *
 * Decides: Connection towards the caller, re-framing, fields that name the upstream, challenges
 * that nobody behind us may answer. Most responses change nothing (`hasChanges`); their head is passed on
 * inside its buffer.
 */
import { parseChallenges } from '../http/challenge.ts';
import { KNOWN_STRIDE } from '../wire/field-lines.ts';
import { valueAt } from '../wire/field-values.ts';
import { PROXY_SUPPORT } from '../wire/proxy-support.ts';
import { RESPONSE_FIELD, type ResponseHead } from '../wire/response-head.ts';
import { latin1 } from './bytes.ts';
import type { ResponseRewriter } from './plan.ts';
import type { LineChanges } from './response-head-writer.ts';

/** By response field id: 1 = never passed on. */
export const RESPONSE_DROP: Uint8Array = dropTable();

/**
 * The same for interim answers: nothing of theirs is rewritten, so what would need it, or could be
 * taken for a challenge to the caller, does not pass.
 */
export const INTERIM_DROP: Uint8Array = interimTable();

function interimTable(): Uint8Array {
  const drop = Uint8Array.from(RESPONSE_DROP);
  const { wwwAuthenticate, setCookie, location, contentLocation, refresh } = RESPONSE_FIELD;
  for (const id of [wwwAuthenticate, setCookie, location, contentLocation, refresh]) drop[id] = 1;
  return drop;
}

function dropTable(): Uint8Array {
  const drop = new Uint8Array(64);
  const { connection, keepAlive, proxyConnection, te, trailer, upgrade, nominated } =
    RESPONSE_FIELD;
  for (const id of [connection, keepAlive, proxyConnection, te, trailer, upgrade, nominated]) {
    drop[id] = 1;
  }
  // Facts of the hop behind us: a login that we made, and a proxy that is none (hostile row E18).
  for (const id of [RESPONSE_FIELD.persistentAuth, RESPONSE_FIELD.proxySupport]) drop[id] = 1;
  for (const id of [RESPONSE_FIELD.proxyAuthenticate, RESPONSE_FIELD.proxyAuthenticationInfo]) {
    drop[id] = 1;
  }
  return drop;
}

export interface ChangeFacts {
  readonly head: ResponseHead;
  readonly buffer: Buffer;
  /** What the caller is told of the connection; undefined: nothing. */
  readonly connection: 'close' | 'keep-alive' | 'upgrade' | undefined;
  /** How the body goes on: as it came, without chunks, or in chunks that the upstream did not make. */
  readonly framing: 'same' | 'dechunk' | 'chunk';
  /** Challenges of connection logins go to the caller, whose connection keeps its own. */
  readonly passesLogins?: boolean;
  readonly rewriter: ResponseRewriter | undefined;
  /** Whole lines of the listener's own for this caller; undefined: none. */
  readonly answerLines?: string | undefined;
  readonly callerHost: () => string;
}

const CONNECTION_LINES = {
  close: 'Connection: close\r\n',
  'keep-alive': 'Connection: keep-alive\r\n',
} as const;

/** Whether a head that keeps its framing and says nothing of the connection may change at all. */
export function hasChanges(
  head: ResponseHead,
  buffer: Buffer,
  rewriter: ResponseRewriter | undefined,
): boolean {
  if (head.first(RESPONSE_FIELD.wwwAuthenticate) >= 0) return true;
  if (rewriter === undefined) return false;
  for (const id of REWRITABLE) {
    const first = head.first(id);
    if (first >= 0 && concernsAny(head, buffer, rewriter, { id, first })) return true;
  }
  return false;
}

function concernsAny(
  { known, knownCount }: ResponseHead,
  buffer: Buffer,
  rewriter: ResponseRewriter,
  { id, first }: { readonly id: number; readonly first: number },
): boolean {
  for (let at = first * KNOWN_STRIDE; at < knownCount * KNOWN_STRIDE; at += KNOWN_STRIDE) {
    if (known[at] !== id) continue;
    if (rewriter.concerns(id, buffer, known[at + 3] ?? 0, known[at + 4] ?? 0)) return true;
  }
  return false;
}

/** What changes; asked only when something does. */
export function responseChanges(facts: ChangeFacts): LineChanges {
  const { head } = facts;
  const hasChallenge = head.first(RESPONSE_FIELD.wwwAuthenticate) >= 0;
  const leaveOut = new Set<number>();
  const added: string[] = [];
  if (facts.connection === 'upgrade') added.push(upgradeLines(facts));
  else if (facts.connection !== undefined) added.push(CONNECTION_LINES[facts.connection]);
  if (facts.answerLines !== undefined) added.push(facts.answerLines);
  if (facts.framing === 'dechunk') leaveOutAll(head, RESPONSE_FIELD.transferEncoding, leaveOut);
  if (facts.framing === 'chunk') added.push('Transfer-Encoding: chunked\r\n');
  if (hasChallenge && facts.passesLogins === true) added.push(PROXY_SUPPORT);
  else if (hasChallenge) filterChallenges(facts, leaveOut, added);
  if (facts.rewriter !== undefined) rewriteFields(facts, facts.rewriter, leaveOut, added);
  return { leaveOut, added: latin1(added.join('')) };
}

const REWRITABLE = [
  RESPONSE_FIELD.location,
  RESPONSE_FIELD.contentLocation,
  RESPONSE_FIELD.refresh,
  RESPONSE_FIELD.setCookie,
] as const;

function leaveOutAll(head: ResponseHead, id: number, leaveOut: Set<number>): void {
  for (let entry = 0; entry < head.knownCount; entry += 1) {
    if (head.known[entry * KNOWN_STRIDE] === id) leaveOut.add(entry);
  }
}

const valueOf = ({ head, buffer }: ChangeFacts, entry: number): string =>
  valueAt(head, buffer, entry);

function upgradeLines(facts: ChangeFacts): string {
  const entry = facts.head.first(RESPONSE_FIELD.upgrade);
  return `Connection: Upgrade\r\nUpgrade: ${valueOf(facts, entry)}\r\n`;
}

const CONNECTION_SCHEMES = new Set(['ntlm', 'negotiate']);

// A caller that answered an NTLM or Negotiate challenge would tie a shared socket to itself; without
// pinning such challenges never reach it (config.md, 401 table). A line that mixes schemes keeps the
// others only when they can be told apart safely: the values are then written anew.
function filterChallenges(facts: ChangeFacts, leaveOut: Set<number>, added: string[]): void {
  for (let entry = 0; entry < facts.head.knownCount; entry += 1) {
    if (facts.head.known[entry * KNOWN_STRIDE] !== RESPONSE_FIELD.wwwAuthenticate) continue;
    const challenges = parseChallenges([valueOf(facts, entry)]);
    const others = challenges.filter((one) => !CONNECTION_SCHEMES.has(one.scheme));
    if (others.length === challenges.length && challenges.length > 0) continue;
    leaveOut.add(entry);
    for (const one of others) added.push(`WWW-Authenticate: ${formatChallenge(one)}\r\n`);
  }
}

function formatChallenge(challenge: ReturnType<typeof parseChallenges>[number]): string {
  const scheme = challenge.scheme.replace(/^[a-z]/, (letter) => letter.toUpperCase());
  if (challenge.token68 !== undefined) return `${scheme} ${challenge.token68}`;
  if (challenge.params === undefined || challenge.params.size === 0) return scheme;
  const quoted = [...challenge.params].map(
    ([name, value]) => `${name}="${value.replaceAll(/["\\]/g, '\\$&')}"`,
  );
  return `${scheme} ${quoted.join(', ')}`;
}

function rewriteFields(
  facts: ChangeFacts,
  rewriter: ResponseRewriter,
  leaveOut: Set<number>,
  added: string[],
): void {
  const { head, buffer } = facts;
  for (let entry = 0; entry < head.knownCount; entry += 1) {
    const id = head.known[entry * KNOWN_STRIDE] ?? -1;
    if (!REWRITABLE.includes(id as (typeof REWRITABLE)[number])) continue;
    const at = entry * KNOWN_STRIDE;
    if (!rewriter.concerns(id, buffer, head.known[at + 3] ?? 0, head.known[at + 4] ?? 0)) continue;
    const changed = rewriter.rewrite(id, valueOf(facts, entry), facts.callerHost());
    if (changed === undefined) continue;
    const nameStart = head.known[entry * KNOWN_STRIDE + 1] ?? 0;
    const name = buffer.toString('latin1', nameStart, buffer.indexOf(0x3a, nameStart));
    leaveOut.add(entry);
    added.push(`${name}: ${changed}\r\n`);
  }
}
