/**
 * The origin that the demo shows: every answer is JSON that says which user it saw, on which of its
 * sockets, and the how-manieth request of that socket it was. The login belongs to the socket.
 */

import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { ConnectionLogin, type Accounts } from './acceptor.ts';

/** What an answer says. */
export interface StoryAnswer {
  readonly user: string;
  /** From 1, in the order of connecting. */
  readonly socket: number;
  /** From 1, counting answered requests of this socket. */
  readonly request: number;
  readonly method: string;
  readonly target: string;
  readonly bodyBytes: number;
}

export interface StorySettings {
  /** Undefined: no login is asked for, the user is ''. */
  readonly accounts: Accounts | undefined;
  readonly domain: string;
}

interface ConnectionFacts {
  readonly socket: number;
  readonly login: ConnectionLogin | undefined;
  requests: number;
}

/** A server that is not listening yet; the caller listens and closes. */
export function createStoryOrigin(settings: StorySettings): Server {
  const connections = new WeakMap<Socket, ConnectionFacts>();
  let sockets = 0;
  const server = createServer((request, response) => {
    const facts = connections.get(request.socket);
    if (facts === undefined) request.socket.destroy();
    else answer(facts, request, response);
  });
  server.on('connection', (socket: Socket) => {
    sockets += 1;
    const login =
      settings.accounts === undefined
        ? undefined
        : new ConnectionLogin(settings.accounts, settings.domain);
    connections.set(socket, { socket: sockets, login, requests: 0 });
  });
  return server;
}

function answer(facts: ConnectionFacts, request: IncomingMessage, response: ServerResponse): void {
  const verdict = facts.login?.judge(request.headers.authorization);
  let bodyBytes = 0;
  request.on('data', (piece: Buffer) => (bodyBytes += piece.length));
  request.on('end', () => {
    if (verdict?.kind === 'challenge') {
      const token = verdict.token === undefined ? '' : ` ${verdict.token}`;
      response.writeHead(401, { 'WWW-Authenticate': `NTLM${token}`, 'Content-Length': 0 }).end();
      return;
    }
    facts.requests += 1;
    const story: StoryAnswer = {
      user: verdict?.user ?? '',
      socket: facts.socket,
      request: facts.requests,
      method: request.method ?? '',
      target: request.url ?? '',
      bodyBytes,
    };
    const body = `${JSON.stringify(story)}\n`;
    response.writeHead(200, {
      'Content-Type': 'application/json',
      'Content-Length': Buffer.byteLength(body),
    });
    response.end(body);
  });
}
