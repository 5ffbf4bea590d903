/**
 * The origin of the benchmarks: after the login of a connection it costs as little as it can, so that
 * what is measured is the proxy in front of it. Answers are made beforehand, the path chooses one, and
 * of a request only the end of its head is looked for.
 *
 * It trusts its benchmark: no grammar is checked, GET requests have no body, bodies of other methods
 * are counted. Anything else closes the connection. It is no origin for anything but a benchmark.
 */

import { createServer, type Server, type Socket } from 'node:net';
import { ConnectionLogin, type Accounts } from './acceptor.ts';

export interface FastSettings {
  /** Undefined: no login is asked for. */
  readonly accounts: Accounts | undefined;
  readonly domain: string;
}

const MAX_HEAD_BYTES = 64 * 1024;
const END_OF_HEAD = Buffer.from('\r\n\r\n');
const AUTHORIZATION = /\r\nauthorization:[ \t]*([^\r]*?)[ \t]*\r\n/i;
const CONTENT_LENGTH = /\r\ncontent-length:[ \t]*(\d{1,15})[ \t]*\r\n/i;
const CHUNKED = /\r\ntransfer-encoding:/i;
/** ASCII of `G`: the one method without a body here. */
const LETTER_G = 0x47;
const LETTER_A = 0x61;
/** Of the path: `GET /` is 5 bytes. */
const FIRST_LETTER = 5;

const ANSWERS = {
  tiny: counted('Hello, world!'),
  posted: counted('ok'),
  k16: counted('x'.repeat(16 * 1024)),
  headers: counted('Hello, world!', fiftyFields('X-Response-Field')),
  cookies: counted('Hello, world!', fiftyFields('Set-Cookie')),
  chunked: chunked(4, 1024),
} as const;

/** Answers to GET requests so far, of all connections; those to `/answered`, which tells them, do not count. */
interface Tally {
  answered: number;
}

/** A server that is not listening yet; the caller listens and closes. */
export function createFastOrigin(settings: FastSettings): Server {
  const tally: Tally = { answered: 0 };
  return createServer({ noDelay: true }, (socket) => {
    const connection = new FastConnection(socket, settings, tally);
    socket.on('data', (bytes: Buffer) => connection.take(bytes));
    socket.on('error', () => undefined);
  });
}

class FastConnection {
  readonly #socket: Socket;
  readonly #login: ConnectionLogin | undefined;
  readonly #tally: Tally;
  /** Bytes of a head that has not ended yet. */
  #partial: Buffer | undefined;
  #bodyLeft = 0;
  /** What follows once the body has been drained. */
  #owed: Buffer = ANSWERS.posted;

  constructor(socket: Socket, settings: FastSettings, tally: Tally) {
    this.#socket = socket;
    this.#tally = tally;
    if (settings.accounts !== undefined) {
      this.#login = new ConnectionLogin(settings.accounts, settings.domain);
    }
  }

  take(received: Buffer): void {
    const bytes = this.#partial === undefined ? received : Buffer.concat([this.#partial, received]);
    this.#partial = undefined;
    let at = 0;
    while (at < bytes.length) {
      if (this.#bodyLeft > 0) {
        const part = Math.min(this.#bodyLeft, bytes.length - at);
        at += part;
        this.#bodyLeft -= part;
        if (this.#bodyLeft === 0) this.#socket.write(this.#owed);
        continue;
      }
      const end = bytes.indexOf(END_OF_HEAD, at);
      if (end < 0) {
        this.#partial = bytes.subarray(at);
        if (this.#partial.length > MAX_HEAD_BYTES) this.#socket.destroy();
        return;
      }
      this.#onHead(bytes, at, end + END_OF_HEAD.length);
      if (this.#socket.destroyed) return;
      at = end + END_OF_HEAD.length;
    }
  }

  #onHead(bytes: Buffer, start: number, end: number): void {
    const plain = bytes[start] === LETTER_G;
    const known = this.#login === undefined || this.#login.user !== undefined;
    if (plain && known) {
      this.#socket.write(this.#answer(bytes, start));
      return;
    }
    const head = bytes.toString('latin1', start, end);
    const length = CONTENT_LENGTH.exec(head)?.[1];
    if (length === undefined && CHUNKED.test(head)) {
      this.#socket.destroy();
      return;
    }
    const good = plain ? choose(bytes, start) : ANSWERS.posted;
    this.#owed = known ? forMethod(head, good) : this.#logIn(head, good);
    this.#bodyLeft = Number(length ?? 0);
    if (this.#bodyLeft === 0) this.#socket.write(this.#owed);
  }

  #answer(bytes: Buffer, start: number): Buffer {
    // /answered
    if (bytes[start + FIRST_LETTER] === LETTER_A) return counted(String(this.#tally.answered));
    this.#tally.answered += 1;
    return choose(bytes, start);
  }

  #logIn(head: string, good: Buffer): Buffer {
    const verdict = this.#login?.judge(AUTHORIZATION.exec(head)?.[1]);
    if (verdict?.kind !== 'challenge') return forMethod(head, good);
    const token = verdict.token === undefined ? '' : ` ${verdict.token}`;
    return Buffer.from(
      `HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: NTLM${token}\r\nContent-Length: 0\r\n\r\n`,
    );
  }
}

/** A HEAD request is answered by the head alone (RFC 9110 9.3.2). */
function forMethod(head: string, good: Buffer): Buffer {
  return head.startsWith('HEAD ') ? good.subarray(0, good.indexOf(END_OF_HEAD) + 4) : good;
}

/** The answer for the path, told apart by its first letter. */
function choose(bytes: Buffer, start: number): Buffer {
  switch (bytes[start + FIRST_LETTER]) {
    case 0x31:
      return ANSWERS.k16; // /16k
    case 0x63:
      return ANSWERS.chunked; // /chunked
    case 0x68:
      return ANSWERS.headers; // /headers
    case 0x73:
      return ANSWERS.cookies; // /set-cookies
    default:
      return ANSWERS.tiny;
  }
}

function counted(body: string, fields = ''): Buffer {
  return Buffer.from(
    `HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n${fields}Content-Length: ${body.length}\r\n\r\n${body}`,
  );
}

function chunked(chunks: number, bytes: number): Buffer {
  const chunk = `${bytes.toString(16)}\r\n${'x'.repeat(bytes)}\r\n`;
  return Buffer.from(
    `HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n${chunk.repeat(chunks)}0\r\n\r\n`,
  );
}

/** With Content-Type and Content-Length an answer then has 50 fields. */
function fiftyFields(name: 'X-Response-Field' | 'Set-Cookie'): string {
  const numbers = Array.from({ length: 48 }, (_, index) => index + 1);
  return numbers
    .map((number) =>
      name === 'Set-Cookie'
        ? `Set-Cookie: name-${number}=value-${number}; Path=/\r\n`
        : `${name}-${number}: value-${number}\r\n`,
    )
    .join('');
}
