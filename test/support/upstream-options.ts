/**
 * The switches of the scripted upstream: every way an NTLM origin over HTTP or HTTPS has been
 * reported to behave. Defaults are those of a plain IIS: login bound to the connection, keep-alive.
 */

import type { TestCertificate } from './certificates.ts';
import type { Accounts, ChallengeSettings, Claim } from './ntlm-acceptor.ts';
import type { Fields, RequestHead } from './strict-http.ts';

/** Accounts of the default upstream. */
export const ACCOUNTS = { 'LAB\\alice': 'alice-secret', 'LAB\\bob': 'bob-secret' } as const;

/** A request as handlers see it. */
export interface UpstreamRequest extends RequestHead {
  readonly socketId: number;
  /** The how-manieth request of this socket, from 1. */
  readonly nth: number;
  /** `DOMAIN\user` as whom it is to be answered. */
  readonly user: string | undefined;
  /** Body facts; empty while the body is not read (`early`). */
  readonly body: Buffer;
  readonly bodyLength: number;
  readonly bodySha256: string;
  readonly trailers: Fields;
  readonly field: (name: string) => string | undefined;
  /** Settles when the connection is gone. */
  readonly gone: Promise<void>;
}

/** How a connection goes on after an answer. */
export type Afterwards = 'keep' | 'fin' | 'reset';

/** An answer with a body that the kit frames. */
export interface ShapedResponse {
  readonly status?: number;
  readonly reason?: string;
  readonly version?: '1.0' | '1.1';
  readonly fields?: Fields;
  /** 1xx answers sent before. */
  readonly interim?: readonly { readonly status: number; readonly fields?: Fields }[];
  readonly body?: string | Uint8Array;
  /** Default counted; `close` ends with the connection; `none` sends no framing field. */
  readonly framing?: 'counted' | 'chunked' | 'close' | 'none';
  /** Bytes per chunk; default 1000. */
  readonly chunkBytes?: number;
  readonly trailers?: Fields;
  /** Bytes behind the body that belong to no response. */
  readonly extra?: string | Uint8Array;
  /** Default keep. `fin` adds `Connection: close` unless `silent`. */
  readonly after?: Afterwards;
  readonly silent?: boolean;
}

/** Exact bytes. */
export interface RawAnswer {
  readonly raw: string | Uint8Array;
  readonly after?: Afterwards;
}

/** 101, then an echo: of WebSocket messages, or of bytes for any other protocol. */
export interface UpgradeAnswer {
  readonly upgrade: string;
  /** What closes first; default: the echo lives until the peer ends. */
  readonly closeAfterBytes?: number;
}

/** Anything else: the test writes and reads by itself. */
export interface ScriptedAnswer {
  readonly run: (wire: UpstreamWire) => Promise<Afterwards>;
}

export type ResponseScript = ShapedResponse | RawAnswer | UpgradeAnswer | ScriptedAnswer;

/** The connection in the hands of a `run` script. */
export interface UpstreamWire {
  write(bytes: string | Uint8Array): Promise<void>;
  /** Between 1 and `max` bytes from the peer; undefined at its end. */
  some(max: number): Promise<Buffer | undefined>;
  /** Sends FIN; reading goes on. */
  end(): void;
  /** Settles when the connection is gone. */
  readonly gone: Promise<void>;
}

export type Handler = (request: UpstreamRequest) => ResponseScript | Promise<ResponseScript>;

/** How the challenge is written into fields. */
export type ChallengeText =
  | 'NTLM'
  | 'ntlm'
  | 'negotiate-lines'
  | 'basic-first-lines'
  | 'comma-list'
  | 'basic-first-comma-list'
  | 'basic-only';

export type ChallengeBody =
  | { readonly kind: 'none' }
  | { readonly kind: 'counted'; readonly bytes: number }
  | { readonly kind: 'chunked'; readonly bytes: number }
  | { readonly kind: 'close'; readonly bytes: number }
  /** A chunked body that goes on until the peer closes. */
  | { readonly kind: 'endless' };

/** Answer to type 1. `ok`: the request is served without a login, the socket stays anonymous. */
export type Type1Answer = 'challenge' | 'challenge-close' | 'ok' | 'fin' | 'reset' | 'bare';

/**
 * Answer to type 3. `bare`: refused whatever it says; `challenge`: another type 2; `close`: verified,
 * and the answer says `Connection: close`; `ok`: served as nobody, whatever it says.
 */
export type Type3Answer = 'verify' | 'bare' | 'challenge' | 'fin' | 'reset' | 'close' | 'ok';

export interface LoginSwitches {
  /** Answer to a request without login: challenge as usual, or challenge and close (said or not). */
  readonly first?: 'challenge' | 'challenge-close' | 'challenge-fin';
  /** Default challenge. A function chooses per socket (ids count from 1). */
  readonly type1?: Type1Answer | ((socketId: number) => Type1Answer);
  /** Default verify. A function chooses by what the message claims. */
  readonly type3?: Type3Answer | ((claim: Claim | undefined, socketId: number) => Type3Answer);
  /** Changes the token of the type 2 answer (malformed challenges); text goes out as it is. */
  readonly mutateType2?: (token: Buffer) => Buffer | string;
  /** Awaited before the answer to a type 1 and a type 3: tests hold legs with it. */
  readonly beforeAnswer?: (leg: 'type1' | 'type3', socketId: number) => Promise<void>;
}

/** How a request that is not logged in enough is refused by the application itself. */
export type Denial = 'bare-401' | '401-challenge' | '403';

export interface BodySwitches {
  /** 400 to a type 1 that carries a body, as IIS does. */
  readonly refuseOnType1?: boolean;
  /** A 401 of the login goes out before the body of its request is read; then as `afterEarly`. */
  readonly earlyChallenge?: boolean;
  /** A 401 or 413 without reading the body: at once, then the socket is closed or drained. */
  readonly early?: (request: UpstreamRequest) => ResponseScript | undefined;
  /** After an early answer: read the rest of the body (default), or close with FIN. */
  readonly afterEarly?: 'drain' | 'close';
  /**
   * To `Expect: 100-continue`. `continue`: 100 only to who is logged in, else a 401 with the body
   * unread; `continue-always`: 100, then the 401.
   */
  readonly expect?: 'continue' | 'continue-always' | 'refuse-417' | 'ignore';
  /** Awaited after each piece of a body, with the bytes so far: stalls and slow readers. */
  readonly pace?: (received: number, request: RequestHead) => Promise<void> | undefined;
}

export interface IdleSwitches {
  /** Bytes written on the idle socket after the answer of this request number. */
  readonly unsolicited?: { readonly after: number; readonly bytes: string };
  /** FIN without a word after this many answers on a socket. */
  readonly closeAfter?: number;
}

export interface TlsSwitches {
  readonly certificate: TestCertificate;
  readonly channelBinding?: 'off' | 'accept' | 'required';
  /** ALPN protocols offered, default ['http/1.1']; a client that takes h2 is cut off. */
  readonly alpn?: readonly string[];
  readonly maxVersion?: 'TLSv1.2' | 'TLSv1.3';
  /** Client certificates asked for and verified against this authority (PEM). */
  readonly clientCa?: string;
}

export interface ScriptedUpstreamOptions {
  /** proxy: 407, Proxy-Authenticate and Proxy-Authorization; markers name who is behind the proxy. */
  readonly role?: 'origin' | 'proxy';
  /** ntlm: login demanded; none: open origin; basic-only: demands what no NTLM client has. */
  readonly scheme?: 'ntlm' | 'none' | 'basic-only';
  /** Basic of the accounts is let in beside NTLM; default false. */
  readonly takesBasic?: boolean;
  /** Targets that need no login; default none. */
  readonly open?: (head: RequestHead) => boolean;
  /** Read at each login: a test that rotates a password changes its own object. */
  readonly accounts?: Accounts;
  /** connection: as IIS; request: `authPersistSingleRequest`. */
  readonly binding?: 'connection' | 'request';
  /** The login of a socket is forgotten after this many answers as that user. */
  readonly forgetAfter?: number;
  readonly challenge?: ChallengeSettings;
  readonly challengeText?: ChallengeText;
  /** Reason phrase of challenges. */
  readonly challengeReason?: string;
  /** Of the status line of challenges; default 1.1. */
  readonly challengeVersion?: '1.0';
  readonly challengeBody?: ChallengeBody;
  /** Fields added to every 401 of the login (cookies, Persistent-Auth). */
  readonly challengeFields?: Fields;
  readonly requireMic?: boolean;
  readonly login?: LoginSwitches;
  /** Asked after a login for each request. */
  readonly deny?: (request: UpstreamRequest) => Denial | undefined;
  readonly body?: BodySwitches;
  readonly idle?: IdleSwitches;
  readonly tls?: TlsSwitches;
  /** Each byte of every answer is a write of its own. */
  readonly splitEveryByte?: boolean;
  /** Default: JSON about the request (see `describeRequest`). */
  readonly handler?: Handler;
  /** Default 127.0.0.1 and any port. */
  readonly host?: string;
  readonly port?: number;
}
