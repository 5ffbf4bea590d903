/** What is asked of forward proxies and their parents before anything is measured. */

import { request } from 'node:http';
import { connect } from 'node:net';

const ANSWER_MS = 10_000;

export interface ForwardAnswer {
  readonly status: number;
  readonly bodyBytes: number;
  readonly headBytes: number;
  /** Whom the parent knows; empty when it says nothing of that. */
  readonly parentUser: string;
}

/** True once something listens on 127.0.0.1:`port`; undefined until then. */
export function acceptsOn(port: number): Promise<true | undefined> {
  const { promise, resolve } = Promise.withResolvers<true | undefined>();
  const socket = connect({ port, host: '127.0.0.1' });
  socket.once('connect', () => {
    socket.destroy();
    resolve(true);
  });
  socket.once('error', () => resolve(undefined));
  return promise;
}

/** One GET of `url` (or a path, of an origin) at `port`, on a connection of its own. */
export function askThrough(port: number, url: string): Promise<ForwardAnswer> {
  const { promise, resolve, reject } = Promise.withResolvers<ForwardAnswer>();
  const call = request(
    {
      host: '127.0.0.1',
      port,
      path: url,
      headers: {
        connection: 'keep-alive',
        host: url.startsWith('/') ? `127.0.0.1:${port}` : new URL(url).host,
      },
      agent: false,
      signal: AbortSignal.timeout(ANSWER_MS),
    },
    (answer) => {
      let bodyBytes = 0;
      answer.on('data', (part: Buffer) => {
        bodyBytes += part.length;
      });
      answer.on('error', reject);
      answer.on('end', () => {
        const user = answer.headers['x-lab-parent-user'];
        resolve({
          status: answer.statusCode ?? 0,
          bodyBytes,
          headBytes: answer.rawHeaders.join('  ').length,
          parentUser: typeof user === 'string' ? user : '',
        });
      });
    },
  );
  call.on('error', reject);
  call.end();
  return promise;
}
