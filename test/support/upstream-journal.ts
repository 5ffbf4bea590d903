/**
 * What the scripted upstream saw, per socket, and the oracles that read it. The central one: a
 * socket that carried a token of one user never carries anything of another.
 */

import type { Claim } from './ntlm-acceptor.ts';
import type { Fields } from './strict-http.ts';

/** The request field that names the user a test sends for; `anonymous` for nobody. */
export const MARKER_FIELD = 'X-Test-Principal';

/** The same at a proxy, where another principal may be logged in. */
export const PROXY_MARKER_FIELD = 'X-Test-Proxy-Principal';

/** Kinds of Authorization that a request carried. */
export type TokenKind = 'none' | 'type1' | 'type3' | 'basic' | 'other';

export interface RequestRecord {
  readonly method: string;
  readonly target: string;
  readonly fields: Fields;
  /** Value of `X-Test-Principal`, or at a proxy of its own marker, when there is one. */
  readonly marker: string | undefined;
  readonly token: TokenKind;
  /** `DOMAIN\user` as whom it was answered; undefined: as nobody. */
  user: string | undefined;
  /** Status of the final answer; 0 while there is none. */
  status: number;
  bodyLength: number;
  /** Hex digest of the body bytes that arrived. */
  bodySha256: string;
  bodyComplete: boolean;
  trailers: Fields;
  /** True when bytes of a further request were here before this one was answered. */
  pipelined: boolean;
}

export interface SocketRecord {
  readonly id: number;
  readonly secure: boolean;
  readonly alpn: string | false | undefined;
  readonly servername: string | undefined;
  /** The TLS session was resumed. */
  readonly resumed: boolean;
  /** Every claim of an AUTHENTICATE message, believed or not, in order. */
  readonly claims: Claim[];
  /** Users that were logged in, `DOMAIN\user`, in order. */
  readonly logins: string[];
  readonly requests: RequestRecord[];
  type1: number;
  type3: number;
  /** Decoded length of the latest type 1. */
  type1Bytes: number;
  /** AUTHENTICATE messages that had no CHALLENGE of this socket before them. */
  strayType3: number;
  bytesIn: number;
  /** Violations of strict HTTP/1.1 by the client. */
  readonly faults: string[];
  open: boolean;
}

export interface Journal {
  readonly sockets: readonly SocketRecord[];
  /** Every AUTHENTICATE message, base64, in order over all sockets. */
  readonly tokens: readonly string[];
}

/** `DOMAIN\user` of a claim; the bare user when there is no domain. */
export function claimedUser(claim: { readonly domain: string; readonly user: string }): string {
  return claim.domain === '' ? claim.user : `${claim.domain}\\${claim.user}`;
}

/**
 * Throws unless every socket was used for at most one identity (R1, R2): users named in its tokens,
 * believed or not, and the markers of all its requests must be one and the same. A socket that
 * never carried a token may serve anybody, and nobody on it is answered as a user.
 */
export function assertOneIdentityPerSocket(journal: Journal): void {
  const complaints = journal.sockets.flatMap((socket) => [
    ...mixedIdentities(socket),
    ...wrongAnswers(socket),
  ]);
  if (complaints.length > 0) throw new Error(`identities mixed:\n  ${complaints.join('\n  ')}`);
}

/**
 * Throws when a token was written twice, or a type 3 came on a socket without a type 2 of its own
 * (R32, R35).
 */
export function assertTokensUsedOnce(journal: Journal): void {
  const seen = new Set<string>();
  for (const token of journal.tokens) {
    if (seen.has(token)) throw new Error('an AUTHENTICATE message was sent twice');
    seen.add(token);
  }
  const stray = journal.sockets.filter((socket) => socket.strayType3 > 0);
  if (stray.length > 0) {
    throw new Error(`type 3 without type 2 on sockets ${stray.map(({ id }) => id).join(', ')}`);
  }
}

/** Throws when a request without a token came between a type 2 and the next token (R16). */
export function assertLegsTogether(journal: Journal): void {
  for (const { id, requests } of journal.sockets) {
    const torn = requests.find((request, index) => {
      const before = requests[index - 1];
      const began = before?.token === 'type1' && (before.status === 401 || before.status === 407);
      return began && request.token !== 'type1' && request.token !== 'type3';
    });
    if (torn === undefined) continue;
    throw new Error(`socket ${id}: ${torn.method} ${torn.target} came between the legs of a login`);
  }
}

/** Throws when the client broke the strict grammar, or pipelined onto a socket with a token. */
export function assertCleanWire(journal: Journal): void {
  const complaints = journal.sockets.flatMap((socket) => [
    ...socket.faults.map((fault) => `socket ${socket.id}: ${fault}`),
    ...socket.requests
      .filter((request) => request.pipelined && hasToken(socket))
      .map(
        (request) => `socket ${socket.id}: pipelined behind ${request.method} ${request.target}`,
      ),
  ]);
  if (complaints.length > 0) throw new Error(`unclean wire:\n  ${complaints.join('\n  ')}`);
}

/** All oracles: what every test with a scripted upstream runs at its end. */
export function assertJournal(journal: Journal): void {
  assertOneIdentityPerSocket(journal);
  assertTokensUsedOnce(journal);
  assertLegsTogether(journal);
  assertCleanWire(journal);
}

function hasToken(socket: SocketRecord): boolean {
  return socket.requests.some(({ token }) => token === 'type1' || token === 'type3');
}

function mixedIdentities(socket: SocketRecord): string[] {
  if (!hasToken(socket)) return [];
  const users = new Set(socket.claims.map((claim) => claimedUser(claim).toLowerCase()));
  const markers = new Set(
    socket.requests.flatMap(({ marker }) => (marker === undefined ? [] : [marker.toLowerCase()])),
  );
  const [user] = users;
  const strangers = [...markers].filter((marker) => user !== undefined && !names(marker, user));
  const mixed = users.size > 1 || strangers.length > 0 || markers.size > 1;
  if (!mixed && !markers.has('anonymous')) return [];
  return [
    `socket ${socket.id}: tokens of [${[...users].join(', ')}], requests of [${[...markers].join(', ')}]`,
  ];
}

function wrongAnswers(socket: SocketRecord): string[] {
  return socket.requests
    .filter(
      ({ marker, user }) =>
        marker !== undefined &&
        user !== undefined &&
        !names(marker.toLowerCase(), user.toLowerCase()),
    )
    .map(
      ({ marker, user, method, target }) =>
        `socket ${socket.id}: ${method} ${target} of ${marker ?? ''} was answered as ${user ?? ''}`,
    );
}

/** A marker is `DOMAIN\user` or the bare user; both sides are in lower case. */
function names(marker: string, user: string): boolean {
  return marker === user || marker === user.slice(user.indexOf('\\') + 1);
}
