/**
 * The embedded NTLM origin as a whole: started in process by the demo, or as a process of its own by
 * the benchmarks: `node src/demo/origin.ts --port N --mode story|fast --auth ntlm|off
 * [--accounts FILE]`, where FILE is JSON of passwords by `DOMAIN\user`.
 *
 * As a process it prints one line of JSON, `{"port":N}`, once it listens, and ends on SIGTERM or
 * SIGINT. It listens on 127.0.0.1 only.
 */

import { readFileSync } from 'node:fs';
import type { Server, Socket } from 'node:net';
import { parseArgs } from 'node:util';
import { createAccounts } from './acceptor.ts';
import { createFastOrigin } from './fast-origin.ts';
import { createStoryOrigin } from './story-origin.ts';

export const ORIGIN_MODES = ['story', 'fast'] as const;

export type OriginMode = (typeof ORIGIN_MODES)[number];

export interface OriginSettings {
  /** 0 lets the system choose. */
  readonly port: number;
  readonly mode: OriginMode;
  /** Passwords by `DOMAIN\user`; undefined: no login is asked for. */
  readonly passwords: Readonly<Record<string, string>> | undefined;
}

/** A running origin; whoever started it closes it. */
export interface DemoOrigin {
  readonly port: number;
  /** Stops listening and drops every connection. */
  close(): Promise<void>;
}

/** NetBIOS domain of the origin. */
export const DEMO_DOMAIN = 'DEMO';

/** Starts the origin on 127.0.0.1. Rejects with the system's error when the port cannot be had. */
export async function startDemoOrigin(settings: OriginSettings): Promise<DemoOrigin> {
  const { passwords, mode } = settings;
  const facts = {
    accounts: passwords === undefined ? undefined : createAccounts(passwords),
    domain: DEMO_DOMAIN,
  };
  const server = mode === 'fast' ? createFastOrigin(facts) : createStoryOrigin(facts);
  const sockets = new Set<Socket>();
  server.on('connection', (socket: Socket) => {
    sockets.add(socket);
    socket.on('close', () => sockets.delete(socket));
  });
  const port = await listen(server, settings.port);
  return { port, close: () => close(server, sockets) };
}

async function listen(server: Server, port: number): Promise<number> {
  const listening = Promise.withResolvers<void>();
  server.once('error', listening.reject);
  server.listen({ port, host: '127.0.0.1', backlog: 1024 }, () => listening.resolve());
  await listening.promise;
  server.off('error', listening.reject);
  const address = server.address();
  return typeof address === 'object' && address !== null ? address.port : port;
}

async function close(server: Server, sockets: ReadonlySet<Socket>): Promise<void> {
  const closed = Promise.withResolvers<void>();
  server.close(() => closed.resolve());
  for (const socket of sockets) socket.destroy();
  await closed.promise;
}

/** Accounts of an origin that was started without a file: for trying it out by hand. */
const TRIAL_ACCOUNTS = { 'DEMO\\alice': 'alice', 'DEMO\\bob': 'bob' } as const;

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      port: { type: 'string', default: '0' },
      mode: { type: 'string', default: 'story' },
      auth: { type: 'string', default: 'ntlm' },
      accounts: { type: 'string' },
    },
  });
  const mode = ORIGIN_MODES.find((known) => known === values.mode);
  if (mode === undefined || !['ntlm', 'off'].includes(values.auth)) {
    process.stderr.write(
      'usage: origin.ts --port N --mode story|fast --auth ntlm|off [--accounts FILE]\n',
    );
    process.exitCode = 64;
    return;
  }
  const passwords = values.auth === 'off' ? undefined : readAccounts(values.accounts);
  const origin = await startDemoOrigin({ port: Number(values.port), mode, passwords });
  const end = (): void => void origin.close();
  process.once('SIGTERM', end);
  process.once('SIGINT', end);
  process.stdout.write(`${JSON.stringify({ port: origin.port })}\n`);
}

function readAccounts(file: string | undefined): Readonly<Record<string, string>> {
  if (file === undefined) return TRIAL_ACCOUNTS;
  const content: unknown = JSON.parse(readFileSync(file, 'utf8'));
  if (typeof content !== 'object' || content === null) throw new Error(`${file}: not an object`);
  return Object.fromEntries(
    Object.entries(content).map(([name, password]) => [name, String(password)]),
  );
}

if (import.meta.main) await main();
