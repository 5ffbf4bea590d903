/**
 * A forward proxy for tests: the scripted upstream in its role of a proxy, with all of its switches, and
 * what a proxy does with a request that it lets in: absolute-form goes on to the origin, CONNECT becomes
 * a tunnel.
 *
 * Each connection of a client has connections to origins of its own, so a login at an origin lasts
 * through it; whether it says so (RFC 4559 6) is a switch.
 */

import { once } from 'node:events';
import { createConnection, type Socket } from 'node:net';
import {
  ByteSource,
  CutShort,
  type Fields,
  fieldValues,
  readBody,
  readResponseHead,
  responseFraming,
} from './strict-http.ts';
import { type ScriptedUpstream, startScriptedUpstream } from './scripted-upstream.ts';
import type {
  Afterwards,
  ResponseScript,
  ScriptedUpstreamOptions,
  UpstreamRequest,
  UpstreamWire,
} from './upstream-options.ts';

export interface ScriptedParentOptions extends Omit<ScriptedUpstreamOptions, 'role' | 'handler'> {
  /** Ports on 127.0.0.1 by `host:port` of a target; what is not named is 502. */
  readonly origins: Readonly<Record<string, number>>;
  /** Default true: 401 answers carry `Proxy-Support: Session-Based-Authentication`. */
  readonly proxySupport?: boolean;
  /** Default false: an origin that goes away is 502. */
  readonly cutsWithOrigin?: boolean;
  /** Default false: `Connection: close` of an origin is the origin's alone. */
  readonly closesWithOrigin?: boolean;
  /** An answer of the proxy itself in place of what it would do. */
  readonly intercept?: (request: UpstreamRequest) => ResponseScript | undefined;
  /** Fields of the 200 to a CONNECT. */
  readonly establishedFields?: string;
  /** Bytes in the same write as the 200 to a CONNECT. */
  readonly behindEstablished?: string;
}

/** Starts it on 127.0.0.1 and any free port. */
export function startScriptedParent(options: ScriptedParentOptions): Promise<ScriptedUpstream> {
  const routes = new Map<number, OriginLinks>();
  return startScriptedUpstream({
    accounts: PARENT_ACCOUNTS,
    ...options,
    role: 'proxy',
    handler: async (request) => {
      const own = options.intercept?.(request);
      if (own !== undefined) return own;
      if (request.method === 'CONNECT') return tunnel(options, request.target);
      const links = routes.get(request.socketId) ?? new OriginLinks(options, request.gone);
      routes.set(request.socketId, links);
      return await links.forward(request);
    },
  });
}

/** Accounts of a parent. */
export const PARENT_ACCOUNTS = { 'LAB\\pat': 'pat-secret', 'LAB\\eve': 'eve-secret' } as const;

const HOP_BY_HOP =
  /^(?:connection|keep-alive|proxy-.*|te|trailer|transfer-encoding|upgrade|content-length|expect)$/i;

/** The connections to origins that one connection of a client has. */
class OriginLinks {
  readonly #options: ScriptedParentOptions;
  readonly #links = new Map<string, { socket: Socket; source: ByteSource }>();

  constructor(options: ScriptedParentOptions, gone: Promise<void>) {
    this.#options = options;
    void gone.then(() => this.#close());
  }

  #close(): void {
    for (const { socket } of this.#links.values()) socket.destroy();
  }

  async forward(request: UpstreamRequest): Promise<ResponseScript> {
    const match = /^http:\/\/(?<authority>[^/?]+)(?<path>.*)$/.exec(request.target)?.groups;
    if (match === undefined) return { status: 400, body: 'no absolute-form' };
    const { authority = '', path = '' } = match;
    const port = portOf(this.#options, authority);
    if (port === undefined) return { status: 502, body: 'no such origin' };
    const link = await this.#link(authority, port);
    const whole = path === '' && request.method === 'OPTIONS' ? '*' : path || '/';
    link.socket.write(`${request.method} ${whole} HTTP/1.1\r\n${lines(forwarded(request))}\r\n`);
    link.socket.write(request.body);
    try {
      return await this.#answer(request.method, link.source);
    } catch (error) {
      if (!(error instanceof CutShort)) throw error;
      if (this.#options.cutsWithOrigin === true) return { raw: '', after: 'reset' };
      return { status: 502, body: 'the origin went away' };
    }
  }

  async #answer(method: string, source: ByteSource): Promise<ResponseScript> {
    let head = await readResponseHead(source);
    while (head.status < 200) head = await readResponseHead(source);
    const pieces: Buffer[] = [];
    const framing = responseFraming(head, method);
    await readBody(source, framing, (piece) => void pieces.push(piece));
    const fields = head.fields.filter(([name]) => !HOP_BY_HOP.test(name));
    const support = [['Proxy-Support', 'Session-Based-Authentication']] as const;
    const said = fieldValues(head.fields, 'connection').join().toLowerCase();
    const closes = this.#options.closesWithOrigin === true && said.includes('close');
    const says = head.status === 401 && this.#options.proxySupport !== false;
    return {
      status: head.status,
      reason: head.reason,
      fields: [...fields, ...(says ? support : [])],
      body: Buffer.concat(pieces),
      framing: framing.kind === 'none' ? 'none' : 'counted',
      after: closes ? 'fin' : 'keep',
    };
  }

  async #link(authority: string, port: number): Promise<{ socket: Socket; source: ByteSource }> {
    const known = this.#links.get(authority);
    if (known !== undefined && !known.socket.readableEnded && !known.socket.destroyed) return known;
    const socket = createConnection({ host: '127.0.0.1', port, noDelay: true });
    socket.on('error', () => undefined);
    const link = { socket, source: new ByteSource(socket) };
    this.#links.set(authority, link);
    await Promise.race([once(socket, 'connect'), once(socket, 'close')]);
    return link;
  }
}

function forwarded({ fields, bodyLength }: UpstreamRequest): Fields {
  const kept = fields.filter(([name]) => !HOP_BY_HOP.test(name));
  return bodyLength > 0 ? [...kept, ['Content-Length', String(bodyLength)]] : kept;
}

const lines = (fields: Fields): string =>
  fields.map(([name, value]) => `${name}: ${value}\r\n`).join('');

function portOf(options: ScriptedParentOptions, authority: string): number | undefined {
  const named = authority.includes(':') ? authority : `${authority}:80`;
  return options.origins[named];
}

function tunnel(options: ScriptedParentOptions, authority: string): ResponseScript {
  const port = portOf(options, authority);
  if (port === undefined) return { status: 502, body: 'no such origin' };
  const head = `HTTP/1.1 200 Go ahead\r\n${options.establishedFields ?? ''}\r\n`;
  const opening = `${head}${options.behindEstablished ?? ''}`;
  return { run: (wire) => carry(wire, port, opening) };
}

/** Both directions until both have ended, each end passed on. */
async function carry(wire: UpstreamWire, port: number, opening: string): Promise<Afterwards> {
  const socket = createConnection({ host: '127.0.0.1', port, noDelay: true, allowHalfOpen: true });
  socket.on('error', () => undefined);
  void wire.gone.then(() => socket.destroy());
  const source = new ByteSource(socket);
  await Promise.race([once(socket, 'connect'), once(socket, 'close')]);
  await wire.write(opening);
  const down = async (): Promise<void> => {
    for (let bytes = await source.some(65536); bytes; bytes = await source.some(65536)) {
      await wire.write(bytes);
    }
    wire.end();
  };
  const up = async (): Promise<void> => {
    for (let bytes = await wire.some(65536); bytes; bytes = await wire.some(65536)) {
      socket.write(bytes);
    }
    socket.end();
  };
  await Promise.all([down(), up()]);
  return 'fin';
}
