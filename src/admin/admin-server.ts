/**
 * The admin listener and the listener for probes: sockets, limits and the fields of every answer.
 *
 * Node's own HTTP server, because nothing here is a hot path. Who is answered is decided by
 * `web-page-rule.ts`, with what by `endpoints.ts`.
 */
import { once } from 'node:events';
import { chmod } from 'node:fs/promises';
import { type IncomingMessage, type Server, type ServerResponse, createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { HostPattern } from '../config/config.ts';
import type { Log } from '../log/log.ts';
import { type Answer, type EndpointDeps, type EndpointSet, answerCall, json } from './endpoints.ts';
import { OWN_HOSTS, type PageRule, refuseWebPage } from './web-page-rule.ts';

/** `mode` is the socket's, after umask when absent. */
export type AdminAddress =
  | { readonly host: string; readonly port: number }
  | { readonly socketPath: string; readonly mode?: number };

export interface AdminSettings {
  readonly kind: EndpointSet;
  readonly listen: AdminAddress;
  /** `admin.hosts`, beside the listen address and this machine's loopback names. */
  readonly hosts: readonly HostPattern[];
  readonly limits?: Partial<AdminLimits>;
}

/** Bounds that keep a caller from holding on to the listener (I9, I12). */
export interface AdminLimits {
  readonly connections: number;
  /** From the opening of a connection to the end of the request's head. */
  readonly headMs: number;
  /** Without a byte in either direction. */
  readonly silentMs: number;
}

const DEFAULT_LIMITS: AdminLimits = {
  connections: 128,
  headMs: 10_000,
  silentMs: 30_000,
};
const MAX_HEAD_BYTES = 16 * 1024;
const MAX_TARGET_LENGTH = 2048;
const CLOSE_GRACE_MS = 1000;

export interface AdminServer {
  /** Opens the listener; a path for a unix socket. Rejects with the system's error. */
  listen(): Promise<AddressInfo | string>;
  /** Lets answers that run end, for a second. May be called twice. */
  close(): Promise<void>;
}

/** A server that is not listening yet. */
export function createAdminServer(deps: EndpointDeps, settings: AdminSettings): AdminServer {
  const limits = { ...DEFAULT_LIMITS, ...settings.limits };
  const rule = pageRule(settings);
  const server = createServer(
    {
      maxHeaderSize: MAX_HEAD_BYTES,
      headersTimeout: limits.headMs,
      // No endpoint takes a body, so a request ends with its head.
      requestTimeout: limits.headMs,
      connectionsCheckingInterval: Math.min(1000, limits.headMs / 2),
    },
    (request, response) => {
      handle(request, response, { deps, rule, kind: settings.kind }).catch((error: unknown) => {
        deps.log.error({ error: errorName(error) }, 'admin: an answer could not be sent');
        response.destroy();
      });
    },
  );
  server.maxConnections = limits.connections;
  server.setTimeout(limits.silentMs);
  let closing: Promise<void> | undefined;
  return {
    listen: () => open(server, settings.listen, deps.log),
    close: () => (closing ??= shut(server)),
  };
}

function pageRule({ kind, listen, hosts }: AdminSettings): PageRule {
  const adminField = kind === 'admin' ? 'needed' : 'not-needed';
  if (kind === 'probes' || 'socketPath' in listen) {
    return { hosts: undefined, everyAddress: false, adminField };
  }
  const own: HostPattern = { host: listen.host.toLowerCase(), wildcard: false, port: undefined };
  const everyAddress = listen.host === '0.0.0.0' || listen.host === '::';
  return { hosts: [own, ...OWN_HOSTS, ...hosts], everyAddress, adminField };
}

interface Handling {
  readonly deps: EndpointDeps;
  readonly rule: PageRule;
  readonly kind: EndpointSet;
}

async function handle(
  request: IncomingMessage,
  response: ServerResponse,
  handling: Handling,
): Promise<void> {
  const answer = await judge(request, handling);
  const body = Buffer.from(answer.body);
  response.writeHead(answer.status, {
    ...answer.fields,
    'Content-Type': answer.contentType,
    'Content-Length': body.length,
    'Cache-Control': 'no-store',
    'X-Content-Type-Options': 'nosniff',
    'Cross-Origin-Resource-Policy': 'same-origin',
    // One request per connection: scrapes are seconds apart, nobody holds a place for nothing, and
    // a body that nobody reads is never taken for the next request.
    Connection: 'close',
  });
  // Node sends no body on HEAD, and keeps the length.
  response.end(body);
}

async function judge(request: IncomingMessage, { deps, rule, kind }: Handling): Promise<Answer> {
  const { method = '', url = '' } = request;
  if ((request.headersDistinct['host']?.length ?? 0) > 1) return json(400, { error: 'malformed' });
  const localAddress = request.socket.localAddress;
  const refusal = refuseWebPage({ method, headers: request.headers, localAddress }, rule);
  if (refusal !== undefined) {
    deps.log.warn({ method, reason: refusal.error, peer: peerOf(request) }, 'admin: refused');
    return json(refusal.status, { error: refusal.error });
  }
  if (url.length > MAX_TARGET_LENGTH) return json(414, { error: 'target-too-long' });
  // An absolute-form target would name another host than the one that was judged.
  if (!url.startsWith('/')) return json(400, { error: 'malformed' });
  if (hasBody(request)) return json(413, { error: 'no-body-taken' });
  const [path = '/'] = url.split('?', 1);
  try {
    return await answerCall({ method, path, peer: peerOf(request) }, kind, deps);
  } catch (error) {
    // A message may quote what it failed on; the name says enough to look further.
    deps.log.error({ path, error: errorName(error) }, 'admin: an endpoint failed');
    return json(500, { error: 'internal' });
  }
}

function hasBody({ headers }: IncomingMessage): boolean {
  if (headers['transfer-encoding'] !== undefined) return true;
  return headers['content-length'] !== undefined && headers['content-length'] !== '0';
}

function peerOf(request: IncomingMessage): string {
  return request.socket.remoteAddress ?? 'unix';
}

function errorName(error: unknown): string {
  return error instanceof Error ? error.name : typeof error;
}

async function open(server: Server, listen: AdminAddress, log: Log): Promise<AddressInfo | string> {
  if ('socketPath' in listen) server.listen({ path: listen.socketPath });
  else server.listen({ host: listen.host, port: listen.port });
  await once(server, 'listening');
  // From here on an error is one of accept: it costs a connection and not the process.
  server.on('error', (error) => log.error({ error: errorName(error) }, 'admin: accept failed'));
  if ('socketPath' in listen && listen.mode !== undefined) {
    await chmod(listen.socketPath, listen.mode);
  }
  const address = server.address();
  if (address === null) throw new Error('the admin listener was closed while it opened');
  return address;
}

async function shut(server: Server): Promise<void> {
  if (!server.listening) return;
  const closed = once(server, 'close');
  server.close();
  const deadline = setTimeout(() => server.closeAllConnections(), CLOSE_GRACE_MS);
  await closed;
  clearTimeout(deadline);
}
