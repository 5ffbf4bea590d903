/**
 * An HTTP origin that asks for raw NTLM and binds the login to the connection, as IIS does.
 *
 * It judges nothing itself: each handshake is handed to Samba's ntlm_auth, line by line, so that
 * what passes here passed a real implementation. One helper serves one handshake at a time.
 *
 * Everything but `/open` and `/lab/counts` asks for a login. `?close` closes the connection after a
 * challenge, `?single` forgets the user after each answer.
 *
 * usage: node front-end.ts PORT NTLM_AUTH [ARGUMENT...]
 */
import { spawn } from 'node:child_process';
import type { ChildProcessByStdio } from 'node:child_process';
import { createHash } from 'node:crypto';
import { createServer } from 'node:http';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { createInterface } from 'node:readline';
import type { Readable, Writable } from 'node:stream';

/** What `/lab/counts` answers: totals since the start. */
export interface FrontEndCounts {
  connections: number;
  negotiateMessages: number;
  authenticateMessages: number;
  accepted: number;
  rejected: number;
}

interface Session {
  user: string | undefined;
  handshake: Helper | undefined;
  requests: number;
}

/** One running ntlm_auth: a question is one line, and so is its answer. */
class Helper {
  readonly #process: ChildProcessByStdio<Writable, Readable, null>;
  readonly #waiting: ((answer: string) => void)[] = [];
  #alive = true;

  constructor(command: string, args: readonly string[]) {
    this.#process = spawn(command, [...args], { stdio: ['pipe', 'pipe', 'inherit'] });
    createInterface({ input: this.#process.stdout }).on('line', (line) => {
      this.#waiting.shift()?.(line);
    });
    this.#process.stdin.on('error', () => this.#fail());
    this.#process.on('error', () => this.#fail());
    this.#process.on('exit', () => this.#fail());
  }

  get alive(): boolean {
    return this.#alive;
  }

  ask(question: string): Promise<string> {
    if (!this.#alive) return Promise.resolve('BH helper ended');
    return new Promise((resolve) => {
      this.#waiting.push(resolve);
      this.#process.stdin.write(`${question}\n`);
    });
  }

  #fail(): void {
    this.#alive = false;
    for (const answer of this.#waiting.splice(0)) answer('BH helper ended');
  }
}

const [port = '', command = '', ...args] = process.argv.slice(2);
const idle: Helper[] = [];
const sessions = new WeakMap<Socket, Session>();
const counts: FrontEndCounts = {
  connections: 0,
  negotiateMessages: 0,
  authenticateMessages: 0,
  accepted: 0,
  rejected: 0,
};

function takeHelper(): Helper {
  for (let helper = idle.pop(); helper !== undefined; helper = idle.pop()) {
    if (helper.alive) return helper;
  }
  return new Helper(command, [...args, '--helper-protocol=squid-2.5-ntlmssp']);
}

/** The helper may serve another handshake: `YR` starts a new one whatever came before. */
function endHandshake(session: Session): void {
  if (session.handshake !== undefined) idle.push(session.handshake);
  session.handshake = undefined;
}

function sessionOf(socket: Socket): Session {
  const known = sessions.get(socket);
  if (known !== undefined) return known;
  const session: Session = { user: undefined, handshake: undefined, requests: 0 };
  sessions.set(socket, session);
  socket.once('close', () => endHandshake(session));
  return session;
}

/** The challenge to send, or undefined when the caller is logged in now. */
async function step(session: Session, token: string): Promise<string | undefined> {
  const first = session.handshake === undefined;
  session.handshake ??= takeHelper();
  if (first) {
    session.user = undefined;
    counts.negotiateMessages += 1;
  } else counts.authenticateMessages += 1;
  const [verdict = '', ...rest] = (
    await session.handshake.ask(`${first ? 'YR' : 'KK'} ${token}`)
  ).split(' ');
  if (verdict === 'TT') return `NTLM ${rest[0] ?? ''}`;
  endHandshake(session);
  if (verdict === 'AF') {
    counts.accepted += 1;
    session.user = rest.join(' ');
    return undefined;
  }
  counts.rejected += 1;
  return 'NTLM';
}

async function login(
  session: Session,
  authorization: string | undefined,
): Promise<string | undefined> {
  if (authorization === undefined) return session.user === undefined ? 'NTLM' : undefined;
  const token = /^NTLM +([A-Za-z0-9+/]+=*)$/i.exec(authorization)?.[1];
  return token === undefined ? 'NTLM' : step(session, token);
}

function send(response: ServerResponse, status: number, content: unknown): void {
  const body = `${JSON.stringify(content)}\n`;
  response.writeHead(status, {
    'Content-Type': 'application/json',
    'Content-Length': Buffer.byteLength(body),
  });
  response.end(body);
}

async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const remotePort = request.socket.remotePort ?? 0;
  const session = sessionOf(request.socket);
  session.requests += 1;
  const url = new URL(request.url ?? '/', 'http://localhost');
  const digest = createHash('sha256');
  let bodyLength = 0;
  for await (const piece of request as AsyncIterable<Buffer>) {
    digest.update(piece);
    bodyLength += piece.length;
  }
  const open = url.pathname === '/lab/counts' || url.pathname.startsWith('/open');
  const challenge = open ? undefined : await login(session, request.headers.authorization);
  response.setHeader('X-Lab-Port', remotePort);
  response.setHeader('X-Lab-User', session.user ?? '');
  if (challenge !== undefined) {
    response.setHeader('WWW-Authenticate', challenge);
    if (url.searchParams.has('close')) response.setHeader('Connection', 'close');
    send(response, 401, { error: 'not logged in' });
  } else if (url.pathname === '/lab/counts') {
    send(response, 200, counts);
  } else {
    send(response, 200, {
      user: session.user ?? null,
      remotePort,
      nth: session.requests,
      method: request.method,
      uri: request.url,
      bodyLength,
      bodySha256: digest.digest('hex'),
      headers: request.headers,
    });
  }
  if (url.searchParams.has('single')) session.user = undefined;
}

const server = createServer({ keepAliveTimeout: 60_000 }, (request, response) => {
  serve(request, response).catch((error: unknown) => {
    console.error(error);
    request.socket.destroy();
  });
});
server.on('connection', () => {
  counts.connections += 1;
});
server.listen(Number(port), '127.0.0.1');
process.once('SIGTERM', () => process.exit(0));
