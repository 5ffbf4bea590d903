/**
 * What the flows of parent proxies start from: a scripted parent that asks for NTLM, an origin behind it
 * that is known by the name `app.test` to the parent alone, and the real daemon with a forward listener
 * that goes through the parent as `pat`. Every part can be replaced.
 */

import { startDaemon, type TestDaemon } from '../support/daemon.ts';
import type { RawClient, RawResponse } from '../support/raw-client.ts';
import { type ScriptedParentOptions, startScriptedParent } from '../support/scripted-parent.ts';
import { startScriptedUpstream, type ScriptedUpstream } from '../support/scripted-upstream.ts';
import {
  PROXY_MARKER_FIELD,
  MARKER_FIELD,
  type RequestRecord,
} from '../support/upstream-journal.ts';
import type { ScriptedUpstreamOptions } from '../support/upstream-options.ts';
import { until } from '../support/waiting.ts';

export interface ParentSetup {
  readonly parent?: Partial<ScriptedParentOptions>;
  /** Default: asks for no login. */
  readonly origin?: ScriptedUpstreamOptions;
  /** Inside of `auth: {…}` of the parent; default pat by NTLM. `off`: no `auth`. */
  readonly auth?: string;
  /** Further keys of the parent. */
  readonly corp?: string;
  /** Inside of `guard: {…}` of pat. */
  readonly guard?: string;
  /** Further upstreams, whole flow mappings by name. */
  readonly upstreams?: Readonly<Record<string, string>>;
  /** Further keys of the first listener, as text inside YAML braces; default `via: [corp]`. */
  readonly listener?: string;
  /** Of the first listener; default forward. */
  readonly mode?: 'forward' | 'reverse';
  /** Further listeners, as flow mappings. */
  readonly listeners?: readonly string[];
  /** What the daemon takes for pat's password; default: the right one. */
  readonly pat?: string;
}

/** A user file of alice and bob, with the passwords that they have upstream. */
const USERS = `LAB\\alice:$apr1$alicexxx$WQ4R8AzuWEfKBx.j/lw2B1
LAB\\bob:$apr1$bobxxxxx$KLbyFNAuX.97Tl6HRi5hj.
`;

/** `config`: `$parent`, `$origin` and `$port` stand for URLs and the port of the origin. */
export async function startParent(setup: ParentSetup = {}): Promise<ParentWorld> {
  const origin = await startScriptedUpstream({ scheme: 'none', ...setup.origin });
  const origins = {
    'app.test:80': origin.port,
    'other.test:80': origin.port,
    'app.test:443': origin.port,
    'other.test:443': origin.port,
  };
  const parent = await startScriptedParent({ origins, ...setup.parent });
  try {
    const secrets = {
      PAT: setup.pat ?? 'pat-secret',
      EVE: 'eve-secret',
      ALICE: 'alice-secret',
      BOB: 'bob-secret',
      USERS,
    };
    const config = configOf(setup)
      .replaceAll('$parent', parent.url)
      .replaceAll('$origin', origin.url)
      .replaceAll('$port', String(origin.port));
    const lookup = (): Promise<never> => Promise.reject(new Error('no name is known here'));
    const daemon = await startDaemon({ config, secrets, lookup });
    return new ParentWorld(origin, parent, daemon);
  } catch (error) {
    await parent.close();
    await origin.close();
    throw error;
  }
}

function configOf(setup: ParentSetup): string {
  const auth = setup.auth ?? 'principal: pat, schemes: [ntlm]';
  const login = auth === 'off' ? '' : `, auth: { ${auth} }`;
  const guard = setup.guard === undefined ? '' : `, guard: { ${setup.guard} }`;
  const more = Object.entries(setup.upstreams ?? {}).map(([name, text]) => `  ${name}: ${text}`);
  const listeners = (setup.listeners ?? []).map((text) => `  - ${text}`);
  return `version: 1
admin: { listen: 127.0.0.1:0 }
principals:
  pat: { username: 'LAB\\pat', password: { env: PAT }${guard} }
  eve: { username: 'LAB\\eve', password: { env: EVE } }
  alice: { username: 'LAB\\alice', password: { env: ALICE } }
  bob: { username: 'LAB\\bob', password: { env: BOB } }
  caller: { from: client }
upstreams:
  corp: { proxy: '$parent'${login}${setup.corp ?? ''} }
${more.join('\n')}
listeners:
  - { name: egress, listen: 127.0.0.1:0, mode: ${setup.mode ?? 'forward'}, ${setup.listener ?? 'via: [corp]'} }
${listeners.join('\n')}
`;
}

export type Fields = Readonly<Record<string, string>>;

/** Says for whom a request is at both hops, so that the oracles of both can tell. */
export const marks = (atParent?: string, atOrigin?: string): Record<string, string> => ({
  ...(atParent === undefined ? {} : { [PROXY_MARKER_FIELD]: atParent }),
  ...(atOrigin === undefined ? {} : { [MARKER_FIELD]: atOrigin }),
});

/** The three of them. Disposing it ends the daemon, then runs the oracles of both servers. */
export class ParentWorld {
  readonly origin: ScriptedUpstream;
  readonly parent: ScriptedUpstream;
  readonly daemon: TestDaemon;

  constructor(origin: ScriptedUpstream, parent: ScriptedUpstream, daemon: TestDaemon) {
    this.origin = origin;
    this.parent = parent;
    this.daemon = daemon;
  }

  /** One request on a connection of its own. */
  async ask(
    line: string,
    fields: Fields = {},
    body: string | Uint8Array = '',
    listener?: string,
  ): Promise<RawResponse> {
    await using client = await this.daemon.connect(listener);
    return await ask(client, line, fields, body);
  }

  /** The head of the answer to a CONNECT, and its connection. */
  async connect(
    authority: string,
    fields: Fields = {},
    listener?: string,
  ): Promise<{ client: RawClient; answer: RawResponse | undefined }> {
    const client = await this.daemon.connect(listener);
    await client.request(`CONNECT ${authority}`, { Host: authority, ...fields });
    return { client, answer: undefined };
  }

  /** A tunnel; throws unless the answer is 200. */
  async tunnel(authority = 'app.test:443', listener?: string): Promise<RawClient> {
    const { client } = await this.connect(authority, {}, listener);
    const { status } = await client.head();
    if (status !== 200) throw new Error(`CONNECT: ${status}`);
    return client;
  }

  /** Lets pat succeed at the parent, and closes the sockets of that. */
  async prove(): Promise<void> {
    const answer = await this.ask('GET http://app.test/prove', marks('pat'));
    if (answer.status !== 200) throw new Error(`not proven: ${answer.status}`);
    await this.dropAll();
  }

  /** The parent closes every socket; resolves once both sides know. */
  async dropAll(): Promise<void> {
    this.parent.drop('fin');
    await until(() => this.parent.openSockets === 0, 'no socket at the parent');
    await this.daemon.measured(
      (metrics) => metrics.sum('sidekerb_upstream_connections') === 0,
      'no socket',
    );
  }

  /** What reached the application of the origin. */
  get executed(): readonly RequestRecord[] {
    return this.origin.requests.filter(({ status }) => status >= 200 && status !== 401);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await using stack = new AsyncDisposableStack();
    stack.use(this.origin);
    stack.use(this.parent);
    stack.use(this.daemon);
  }
}

/** One request on `client`. */
export async function ask(
  client: RawClient,
  line: string,
  fields: Fields = {},
  body: string | Uint8Array = '',
): Promise<RawResponse> {
  const host = /^\S+ http:\/\/([^/ ?]+)/.exec(line)?.[1] ?? 'app.test';
  await client.request(line, { Host: host, ...fields }, body);
  return await client.response(line.split(' ')[0] ?? '');
}
