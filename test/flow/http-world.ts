/**
 * A daemon with one listener and one route in front of one scripted upstream. A test says what
 * differs from a plain open origin; everything is ended together, with the oracles of the upstream.
 */

import type { SecureClientSessionOptions } from 'node:http2';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { startDaemon, type TestDaemon } from '../support/daemon.ts';
import { H2Client } from '../support/h2-client.ts';
import type { RawClient } from '../support/raw-client.ts';
import { startScriptedUpstream, type ScriptedUpstream } from '../support/scripted-upstream.ts';
import type { Handler, ScriptedUpstreamOptions } from '../support/upstream-options.ts';
import type { SocketEngine } from '../../src/server/raw-socket.ts';

export interface WorldSetup {
  /** Default: an open origin that describes requests. */
  readonly upstream?: ScriptedUpstreamOptions;
  readonly handler?: Handler;
  /** The daemon logs in as LAB\alice. */
  readonly login?: boolean;
  /** Further keys, as text inside YAML braces: `stripPrefix: true`. */
  readonly route?: string;
  /** Path of the upstream's url. */
  readonly basePath?: string;
  readonly upstreamKeys?: string;
  readonly listener?: string;
  readonly listen?: string;
  readonly top?: string;
  readonly engine?: SocketEngine;
}

export class World {
  readonly upstream: ScriptedUpstream;
  readonly daemon: TestDaemon;

  constructor(upstream: ScriptedUpstream, daemon: TestDaemon) {
    this.upstream = upstream;
    this.daemon = daemon;
  }

  connect(): Promise<RawClient> {
    return this.daemon.connect();
  }

  /** An HTTP/2 connection; the listener needs `http2: true`. */
  connectHttp2(options: SecureClientSessionOptions = {}): Promise<H2Client> {
    const authority = this.daemon.authority();
    return H2Client.connect(`http://${authority}`, authority, options);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.daemon[Symbol.asyncDispose]();
    await this.upstream[Symbol.asyncDispose]();
  }
}

export async function startWorld(setup: WorldSetup = {}): Promise<World> {
  const { login = false, handler } = setup;
  const upstream = await startScriptedUpstream({
    ...(login ? {} : { scheme: 'none' as const }),
    ...(handler === undefined ? {} : { handler }),
    ...setup.upstream,
  });
  try {
    const daemon = await startDaemon({
      config: configText(setup, upstream.url),
      secrets: { ALICE: 'alice-secret' },
      ...(setup.engine === undefined ? {} : { engine: setup.engine }),
    });
    return new World(upstream, daemon);
  } catch (error) {
    await upstream.close();
    throw error;
  }
}

const more = (keys: string | undefined): string => (keys === undefined ? '' : `, ${keys}`);

function configText(setup: WorldSetup, url: string): string {
  const auth = 'auth: { principal: alice, schemes: [ntlm] }';
  return `version: 1
admin: { listen: 127.0.0.1:0 }
${setup.top ?? ''}
principals: { alice: { username: 'LAB\\alice', password: { env: ALICE } } }
upstreams:
  origin: { url: '${url}${setup.basePath ?? ''}'${setup.login === true ? `, ${auth}` : ''}${more(setup.upstreamKeys)} }
listeners:
  - { name: main, listen: ${setup.listen ?? '127.0.0.1:0'}, mode: reverse${more(setup.listener)}, routes: [ { upstream: origin${more(setup.route)} } ] }
`;
}

/** Resolves once `count` has stood still for many turns of the event loop. */
export async function stalled(count: () => number): Promise<void> {
  let last = count();
  for (let still = 0; still < 200; still += 1) {
    await nextTurn();
    if (count() === last) continue;
    last = count();
    still = 0;
  }
}
