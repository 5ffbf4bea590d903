/**
 * A small web server in the test's process, over http or https: what it answers is decided by the test,
 * whom and what it was asked is kept.
 */

import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import type { TestCertificate } from './certificates.ts';

/** A request as it arrived, with its whole body told. */
export interface SiteRequest {
  readonly method: string;
  /** Path and query. */
  readonly path: string;
  readonly headers: IncomingMessage['headers'];
  readonly bodyLength: number;
  readonly bodySha256: string;
}

export interface SiteAnswer {
  readonly status?: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string | Uint8Array;
}

/** The running server; `await using` ends it. */
export interface Site extends AsyncDisposable {
  /** `127.0.0.1:PORT`. */
  readonly authority: string;
  /** Scheme and authority. */
  readonly url: string;
  readonly requests: readonly SiteRequest[];
}

/** Starts a site on 127.0.0.1; with a certificate over https. */
export async function startSite(
  answer: (request: SiteRequest) => SiteAnswer,
  certificate?: TestCertificate,
): Promise<Site> {
  const requests: SiteRequest[] = [];
  const serve = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const hash = createHash('sha256');
    let bodyLength = 0;
    for await (const piece of request) {
      hash.update(piece);
      bodyLength += piece.length;
    }
    const { method = '', url: path = '', headers } = request;
    const asked = { method, path, headers, bodyLength, bodySha256: hash.digest('hex') };
    requests.push(asked);
    const { status = 200, headers: fields = {}, body = '' } = answer(asked);
    response.writeHead(status, { 'Content-Length': Buffer.byteLength(body), ...fields });
    response.end(method === 'HEAD' ? '' : body);
  };
  const listener = (request: IncomingMessage, response: ServerResponse): void => {
    serve(request, response).catch(() => response.destroy());
  };
  const server =
    certificate === undefined
      ? createServer(listener)
      : createTlsServer({ key: certificate.key, cert: certificate.cert }, listener);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const authority = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  return {
    authority,
    url: `${certificate === undefined ? 'http' : 'https'}://${authority}`,
    requests,
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}
