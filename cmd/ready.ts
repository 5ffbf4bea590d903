/** `sidekerb ready`: the health check of a container without a shell. */

import { request } from 'node:http';
import type { RequestOptions } from 'node:http';
import type { Command } from './command.ts';
import { EXIT, parseCommandLine, UsageError } from './command.ts';

const DEFAULT_URL = 'http://127.0.0.1:9180/readyz';

/** Orchestrators give a probe about a second. */
const DEADLINE_MS = 2000;

export const ready: Command = {
  usage: ['sidekerb ready [--url URL]'],
  help: `Asks a running sidekerb whether it is ready: 0 when it is, 69 when it is not or does not answer.

  --url URL   default ${DEFAULT_URL}; unix:/path for an admin listener on a socket`,
  run: async (args, terminal) => {
    const { values } = parseCommandLine(args, { url: { type: 'string' } }, { min: 0, max: 0 });
    const answer = await ask(target(values.url ?? DEFAULT_URL));
    if (answer === 200) return EXIT.ok;
    terminal.err(`not ready: ${typeof answer === 'number' ? `status ${answer}` : answer}\n`);
    return EXIT.unavailable;
  },
};

function target(text: string): RequestOptions {
  if (text.startsWith('unix:/')) {
    return {
      socketPath: text.slice('unix:'.length),
      path: '/readyz',
      headers: { host: 'localhost' },
    };
  }
  const url = URL.parse(text);
  if (url === null || url.protocol !== 'http:')
    throw new UsageError('--url wants http://HOST:PORT or unix:/path');
  const path = url.pathname === '/' ? '/readyz' : url.pathname;
  return {
    host: url.hostname.replaceAll(/[[\]]/g, ''),
    port: url.port === '' ? 80 : url.port,
    path,
  };
}

/** The status, or why there is none. */
function ask(options: RequestOptions): Promise<number | string> {
  const { promise, resolve } = Promise.withResolvers<number | string>();
  const signal = AbortSignal.timeout(DEADLINE_MS);
  const asked = request({ ...options, agent: false, signal }, (response) => {
    resolve(response.statusCode ?? 0);
    response.destroy();
  });
  asked.on('error', (error: NodeJS.ErrnoException) => {
    resolve(
      signal.aborted
        ? `no answer within ${DEADLINE_MS} ms`
        : `no answer (${error.code ?? error.name})`,
    );
  });
  asked.end();
  return promise;
}
