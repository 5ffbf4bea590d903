/**
 * The attacker's side of the network: a server for his pages, and his name `evil.test`, which leads
 * to that server for his pages and to whatever listens on loopback for the rest, as a rebound name
 * does. Also who the attackers are and by what means they try; what must come of it the tests say.
 */
import { readFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import {
  type AddressInfo,
  connect,
  createServer as createTcpServer,
  type Server as TcpServer,
  type Socket,
} from 'node:net';
import { join } from 'node:path';
import { event } from '../support/waiting.ts';
import type { Chromium, Page } from './chromium.ts';

/** The page with all means of attack. */
export const ATTACK_PAGE = readFileSync(join(import.meta.dirname, 'pages', 'attacker.html'));

const PREFIX = '/attacker/';
const MAX_HEAD = 64 * 1024;

/** Pairs of means and URL. */
export type Plan = readonly (readonly [means: Means, url: string])[];

/** How each means shows at the server, when nothing stops it. */
export const MEANS = {
  'form-urlencoded': 'POST',
  'form-text': 'POST',
  'form-multipart': 'POST',
  'fetch-get': 'GET',
  'fetch-get-no-cors': 'GET',
  'fetch-post': 'POST',
  'fetch-post-no-cors': 'POST',
  'fetch-post-no-referrer': 'POST',
  'fetch-post-json': 'POST',
  'fetch-post-admin-field': 'POST',
  'fetch-get-field': 'GET',
  'fetch-put': 'PUT',
  'fetch-delete': 'DELETE',
  'fetch-post-bounced': 'POST',
  'form-bounced': 'POST',
  'image-bounced': 'GET',
  beacon: 'POST',
  ping: 'POST',
  xhr: 'POST',
  image: 'GET',
  script: 'GET',
  module: 'GET',
  style: 'GET',
  frame: 'GET',
  object: 'GET',
  'event-source': 'GET',
  websocket: 'GET',
} as const;

export type Means = keyof typeof MEANS;

export const ALL_MEANS = Object.keys(MEANS) as readonly Means[];

/** The means by which a page learns something, if the server lets it. */
export const READING_MEANS: readonly Means[] = [
  ...(['fetch-get', 'fetch-post', 'fetch-post-json', 'fetch-post-admin-field'] as const),
  ...(['fetch-get-field', 'fetch-put', 'fetch-delete', 'fetch-post-bounced'] as const),
  ...(['image-bounced', 'xhr', 'image', 'script', 'module', 'style', 'frame'] as const),
  ...(['object', 'event-source', 'websocket'] as const),
];

/** A request that the attacker's own server passed on comes from no origin: `Origin: null`. */
export const BOUNCED_MEANS: readonly Means[] = [
  'fetch-post-bounced',
  'form-bounced',
  'image-bounced',
];

/** GETs of other origins for which a browser sends no Origin. */
export const NAMELESS_MEANS: readonly Means[] = [
  ...(['fetch-get-no-cors', 'image', 'image-bounced', 'script', 'style', 'frame'] as const),
  'object',
];

/** A page of somebody else. */
export interface Attacker {
  readonly name: string;
  /** Origin of the page that attacks `port`. */
  readonly origin: (port: number, pagePort: number) => string;
  /** What it calls the server at `port`. */
  readonly target: (port: number) => string;
  readonly framed: boolean;
}

/** A name of the operator, not of the attacker, that leads to this machine. */
export const PLAIN_NAME = 'app.test';

/** The server at `port` under that name. */
export const plainName = (port: number): string => `http://${PLAIN_NAME}:${port}`;

const own = (port: number): string => `http://127.0.0.1:${port}`;
const evil = (port: number): string => `http://evil.test:${port}`;

export const ATTACKERS = {
  port: {
    name: 'a page on another loopback port',
    origin: (_, pagePort) => own(pagePort),
    target: own,
    framed: false,
  },
  site: {
    name: 'a page of another site',
    origin: (_, pagePort) => evil(pagePort),
    target: own,
    framed: false,
  },
  rebound: {
    name: 'a page under a rebound name',
    origin: (port) => evil(port),
    target: evil,
    framed: false,
  },
  sandboxed: {
    name: 'a sandboxed frame',
    origin: (_, pagePort) => own(pagePort),
    target: own,
    framed: true,
  },
} as const satisfies Record<string, Attacker>;

/** Servers of the attacker; ended by `await using`. */
export class AttackerNet {
  readonly #pages: Server;
  readonly #name: TcpServer;
  readonly #sockets = new Set<Socket>();

  static async start(): Promise<AttackerNet> {
    const net = new AttackerNet();
    net.#pages.listen(0, '127.0.0.1');
    net.#name.listen(0, '127.0.0.1');
    await Promise.all([event(net.#pages, 'listening'), event(net.#name, 'listening')]);
    return net;
  }

  constructor() {
    this.#pages = createServer((request, response) => this.#answer(request, response));
    this.#name = createTcpServer({ allowHalfOpen: true }, (socket) => this.#resolve(socket));
  }

  /** Where his pages are served. */
  get pagePort(): number {
    return portOf(this.#pages);
  }

  /** For `Chromium.start`: every port of evil.test is answered here. */
  get resolverRules(): string {
    return `MAP evil.test 127.0.0.1:${portOf(this.#name)}, MAP ${PLAIN_NAME} 127.0.0.1`;
  }

  /** Where the page of `attacker` is that is about to attack `port`. */
  pageUrl(attacker: Attacker, port: number): string {
    const bounce = encodeURIComponent(`${own(this.pagePort)}${PREFIX}bounce`);
    return `${attacker.origin(port, this.pagePort)}${PREFIX}page?bounce=${bounce}`;
  }

  /** A tab with that page. */
  open(browser: Chromium, attacker: Attacker, port: number): Promise<Page> {
    return browser.open(this.pageUrl(attacker, port));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    const closed = [event(this.#pages, 'close'), event(this.#name, 'close')];
    this.#pages.close();
    this.#pages.closeAllConnections();
    this.#name.close();
    await Promise.all(closed);
  }

  #answer(request: IncomingMessage, response: ServerResponse): void {
    const url = new URL(request.url ?? '/', 'http://evil.test');
    const to = url.searchParams.get('to');
    const { origin } = request.headers;
    response.setHeader('Connection', 'close');
    response.setHeader('Access-Control-Allow-Origin', origin ?? '*');
    response.setHeader('Access-Control-Allow-Credentials', 'true');
    if (url.pathname === `${PREFIX}bounce` && to !== null) {
      response.writeHead(307, { Location: to }).end();
    } else if (url.pathname === `${PREFIX}page`) {
      response.writeHead(200, { 'Content-Type': 'text/html' }).end(ATTACK_PAGE);
    } else {
      response.writeHead(404).end();
    }
  }

  // The first head of a connection says what the name stands for, this time.
  #resolve(socket: Socket): void {
    this.#keep(socket);
    let head = Buffer.alloc(0);
    const onData = (piece: Buffer): void => {
      head = Buffer.concat([head, piece]);
      const text = head.toString('latin1');
      if (!text.includes('\r\n\r\n') && head.length < MAX_HEAD) return;
      socket.off('data', onData).pause();
      const port = text.split(' ', 2)[1]?.startsWith(PREFIX)
        ? this.pagePort
        : Number(/\r\nHost: [^\r\n]*:(\d+)\r\n/i.exec(text)?.[1]);
      const server = connect({ host: '127.0.0.1', port, allowHalfOpen: true });
      this.#keep(server);
      server.write(head);
      socket.pipe(server).pipe(socket);
    };
    socket.on('data', onData);
  }

  #keep(socket: Socket): void {
    this.#sockets.add(socket);
    socket.on('error', () => socket.destroy());
    socket.on('close', () => this.#sockets.delete(socket));
  }
}

/** Runs a plan in the attacker's page until the browser is done; what the page learned, by means. */
export async function attack(
  page: Page,
  attacker: Attacker,
  plan: Plan,
): Promise<Readonly<Record<string, string>>> {
  const launch = attacker.framed ? 'launchFramed' : 'launch';
  return (await page.evaluate(`${launch}(${JSON.stringify(plan)})`)) as Record<string, string>;
}

/** What the page has learned, once it learned something by each of `means`. */
export async function learned(
  page: Page,
  means: readonly Means[],
): Promise<Readonly<Record<string, string>>> {
  return (await page.evaluate(`allRead(${JSON.stringify(means)})`)) as Record<string, string>;
}

function portOf(server: TcpServer): number {
  return (server.address() as AddressInfo).port;
}
