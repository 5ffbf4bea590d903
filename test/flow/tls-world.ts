/** A TLS listener in front of a scripted origin without a login: what it shows, and whom it lets in. */
import { startDaemon, type TestDaemon } from '../support/daemon.ts';
import { RawClient, type RawClientTls, type RawResponse } from '../support/raw-client.ts';
import { type ScriptedUpstream, startScriptedUpstream } from '../support/scripted-upstream.ts';
import { ACCOUNTS, type Handler } from '../support/upstream-options.ts';
import { within } from '../support/waiting.ts';

export interface TlsSetup {
  /** Flow mappings of `tls`. */
  readonly tls: string;
  /** Further keys of the listener, each on a line of its own. */
  readonly listener?: string;
  readonly routes?: string;
  readonly secrets?: Readonly<Record<string, string>>;
  readonly scheme?: 'none' | 'ntlm';
  readonly handler?: Handler;
}

export class TlsWorld implements AsyncDisposable {
  readonly upstream: ScriptedUpstream;
  readonly daemon: TestDaemon;

  constructor(upstream: ScriptedUpstream, daemon: TestDaemon) {
    this.upstream = upstream;
    this.daemon = daemon;
  }

  static async start(setup: TlsSetup): Promise<TlsWorld> {
    await using stack = new AsyncDisposableStack();
    const { scheme = 'none', handler } = setup;
    const more = handler === undefined ? {} : { handler };
    const upstream = stack.use(await startScriptedUpstream({ scheme, ...more }));
    const daemon = await startDaemon({
      config: configText(upstream.url, setup),
      secrets: { ALICE: ACCOUNTS['LAB\\alice'], BOB: ACCOUNTS['LAB\\bob'], ...setup.secrets },
    });
    stack.move();
    return new TlsWorld(upstream, daemon);
  }

  connect(tls: RawClientTls): Promise<RawClient> {
    return within(RawClient.connect({ ...this.daemon.address(), tls }), 'a TLS connection');
  }

  /** One request on a connection of its own. */
  async ask(
    tls: RawClientTls,
    fields: Readonly<Record<string, string>> = {},
    line = 'GET /x',
  ): Promise<RawResponse> {
    await using client = await this.connect(tls);
    return await this.on(client, fields, line);
  }

  async on(
    client: RawClient,
    fields: Readonly<Record<string, string>> = {},
    line = 'GET /x',
  ): Promise<RawResponse> {
    await client.request(line, { Host: this.daemon.authority(), ...fields });
    return await within(client.response(line.split(' ')[0] ?? ''), `an answer to ${line}`);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.daemon[Symbol.asyncDispose]();
    await this.upstream[Symbol.asyncDispose]();
  }
}

function configText(url: string, setup: TlsSetup): string {
  const auth = setup.scheme === 'ntlm' ? ', auth: { schemes: [ntlm] }' : '';
  return `version: 1
admin: { listen: 127.0.0.1:0 }
principals:
  alice: { username: 'LAB\\alice', password: { env: ALICE } }
  bob: { username: 'LAB\\bob', password: { env: BOB } }
upstreams:
  origin: { url: '${url}'${auth} }
listeners:
  - name: gate
    listen: 127.0.0.1:0
    tls: [${setup.tls}]
    ${setup.listener ?? ''}
    routes: [${setup.routes ?? '{ upstream: origin }'}]
`;
}
