/** sidekerb as a gateway in front of the open origin: the configurations of the callers' cases. */

import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Child } from './child.ts';
import { BENCH_CLIENT } from './micro/jwt-decoder.ts';
import type { ProcessGroup } from './process-group.ts';
import { POOL_SIZE } from './subjects/subject.ts';

const PROGRAM = join(import.meta.dirname, '../cmd/sidekerb.ts');

export interface GatewaySettings {
  readonly port: number;
  readonly adminPort: number;
  readonly originPort: number;
  /** Entries of `clients`. */
  readonly clients: string;
  /** Further keys of the one route, after a comma. */
  readonly route?: string;
  /** Names of fields that are known, and dropped. */
  readonly identityHeaders?: readonly string[];
  /** Of the listener; default: plain HTTP. */
  readonly tls?: string;
}

/** Tokens of the benches' issuer, whose keys lie in `file`. */
export const jwtClient = (file: string, mode: 'lru' | 'off'): string =>
  `{ jwt: { issuer: '${BENCH_CLIENT.issuer}', audience: ${BENCH_CLIENT.audience}, jwks: ${JSON.stringify(file)}, cache: { mode: ${mode}, max: 1000 } } }`;

/**
 * A caller check that reads each of these fields of a request: any of them could name the caller, if it
 * came from a proxy, and no load does.
 */
export const readingClients = (fields: readonly string[]): string =>
  [...fields.map((name) => `{ header: { name: ${name}, from: 192.0.2.1 } }`), 'none'].join(', ');

/** There is no login upstream: what is compared is what the daemon does before, on both sides alike. */
export function gatewayConfig({
  port,
  adminPort,
  originPort,
  clients,
  route = '',
  identityHeaders = [],
  tls,
}: GatewaySettings): string {
  return `version: 1
log: { level: warn, access: false }
admin: { listen: '127.0.0.1:${adminPort}' }
upstreams:
  origin:
    url: 'http://127.0.0.1:${originPort}'
    pool: { maxConnections: ${POOL_SIZE}, maxPerPrincipal: ${POOL_SIZE}, maxIdle: ${POOL_SIZE} }
listeners:
  - name: bench
    listen: '127.0.0.1:${port}'
    clients: [${clients}]${tls === undefined ? '' : `\n    tls: ${tls}`}
    identityHeaders: [${identityHeaders.join(', ')}]
    routes: [{ upstream: origin${route} }]
`;
}

/** Starts it on the proxies' core; it may not be listening yet. */
export async function startGateway(
  group: ProcessGroup,
  name: string,
  settings: GatewaySettings,
): Promise<Child> {
  const folder = await group.makeFolder(name);
  const file = join(folder, 'sidekerb.yaml');
  await writeFile(file, gatewayConfig(settings));
  const child = await Child.start({
    name,
    command: process.execPath,
    args: [PROGRAM, 'run', '--config', file],
    core: group.cores.proxy,
  });
  return group.own(child);
}

/**
 * The script of wrk's threads: each is a client with tokens of its own, which take turns. `done` is that
 * of the other cases.
 */
export function tokenScript(tokens: readonly string[], perClient: number, done: string): string {
  const list = tokens.map((token) => JSON.stringify(token)).join(', ');
  return `local tokens = { ${list} }
local threads = 0
function setup(thread)
  thread:set("first", threads * ${perClient})
  threads = threads + 1
end
local requests, turn = {}, 0
function init(args)
  for i = 1, ${perClient} do
    requests[i] = wrk.format("GET", "/", { ["Host"] = wrk.headers["Host"], ["Authorization"] = "Bearer " .. tokens[first + i] })
  end
end
function request()
  turn = turn % ${perClient} + 1
  return requests[turn]
end
${done}`;
}
