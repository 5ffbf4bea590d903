/**
 * A daemon with one forward listener, and a scripted upstream that it may reach: as a literal, and as
 * `origin.test`, a name that only the daemon of the test resolves.
 */

import { startDaemon, type TestDaemon } from '../support/daemon.ts';
import type { RawClient, RawResponse } from '../support/raw-client.ts';
import { startScriptedUpstream, type ScriptedUpstream } from '../support/scripted-upstream.ts';
import type { Handler, ScriptedUpstreamOptions } from '../support/upstream-options.ts';
import type { SocketEngine } from '../../src/server/raw-socket.ts';

export interface ForwardSetup {
  readonly handler?: Handler;
  readonly upstream?: ScriptedUpstreamOptions;
  /** Further keys of the listener, as text inside YAML braces. */
  readonly listener?: string;
  /** Default: the literal and the name of the upstream, any port. */
  readonly allow?: string;
  /** `allow` of a second listener, named so; default: there is none. */
  readonly secondAllow?: string;
  readonly engine?: SocketEngine;
  /** Addresses by name, beside origin.test. */
  readonly names?: Readonly<Record<string, readonly string[]>>;
}

export class ForwardWorld {
  readonly upstream: ScriptedUpstream;
  readonly daemon: TestDaemon;
  /** Every name that was looked up. */
  readonly lookups: readonly string[];

  constructor(upstream: ScriptedUpstream, daemon: TestDaemon, lookups: readonly string[]) {
    this.upstream = upstream;
    this.daemon = daemon;
    this.lookups = lookups;
  }

  /** `127.0.0.1:PORT` of the upstream. */
  get authority(): string {
    return `127.0.0.1:${this.upstream.port}`;
  }

  connect(): Promise<RawClient> {
    return this.daemon.connect();
  }

  /** One absolute-form request for `path` of the upstream, on a connection of its own. */
  ask(
    path: string,
    fields: Readonly<Record<string, string>> = {},
    method = 'GET',
  ): Promise<RawResponse> {
    return this.daemon.ask(`${method} http://${this.authority}${path}`, fields);
  }

  /** A tunnel to the upstream; throws unless the answer is 200. */
  async tunnel(authority = this.authority): Promise<RawClient> {
    const client = await this.connect();
    await client.request(`CONNECT ${authority}`, { Host: authority });
    const head = await client.head();
    if (head.status !== 200) throw new Error(`CONNECT: ${head.status}`);
    return client;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.daemon[Symbol.asyncDispose]();
    await this.upstream[Symbol.asyncDispose]();
  }
}

export async function startForward(setup: ForwardSetup = {}): Promise<ForwardWorld> {
  const { handler } = setup;
  const upstream = await startScriptedUpstream({
    scheme: 'none',
    ...(handler === undefined ? {} : { handler }),
    ...setup.upstream,
  });
  const lookups: string[] = [];
  const allow = setup.allow ?? `['127.0.0.1:*', 'origin.test:*']`;
  const second =
    setup.secondAllow === undefined
      ? ''
      : `, { name: second, listen: 127.0.0.1:0, mode: forward, allow: ${setup.secondAllow} }`;
  const more = setup.listener === undefined ? '' : `, ${setup.listener}`;
  try {
    const daemon = await startDaemon({
      config: `version: 1
admin: { listen: 127.0.0.1:0 }
listeners: [ { name: egress, listen: 127.0.0.1:0, mode: forward, allow: ${allow}${more} }${second} ]
`,
      ...(setup.engine === undefined ? {} : { engine: setup.engine }),
      lookup: (host) => {
        lookups.push(host);
        const found = host === 'origin.test' ? ['127.0.0.1'] : setup.names?.[host];
        if (found === undefined) return Promise.reject(new Error('no such name'));
        return Promise.resolve(
          found.map((address) => ({ address, family: address.includes(':') ? 6 : 4 })),
        );
      },
    });
    return new ForwardWorld(upstream, daemon, lookups);
  } catch (error) {
    await upstream.close();
    throw error;
  }
}
