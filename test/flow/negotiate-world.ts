/**
 * A listener whose callers come by tickets, with a stand-in for the machine's Kerberos: a token names its
 * caller in plain text and is let in once.
 */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { AcceptorHelper } from '../../src/auth/kerberos/acceptors.ts';
import type { HelperEvents } from '../../src/auth/kerberos/helper-link.ts';
import type { ToHelper } from '../../src/auth/kerberos/messages.ts';
import { encodeElement, encodeOid, readElement, TAG } from '../../src/auth/spnego/der.ts';
import { encodeNegTokenInit, OID } from '../../src/auth/spnego/tokens.ts';
import { startDaemon, type TestDaemon } from '../support/daemon.ts';
import { testKeytab } from '../support/kerberos-files.ts';
import type { RawClient, RawResponse } from '../support/raw-client.ts';
import { type ScriptedUpstream, startScriptedUpstream } from '../support/scripted-upstream.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import {
  ACCOUNTS,
  type Handler,
  type ScriptedUpstreamOptions,
} from '../support/upstream-options.ts';
import { type Gate, within } from '../support/waiting.ts';

export type Fields = Readonly<Record<string, string>>;

const REQUEST_ID = Buffer.from([1, 0]);
const APPLICATION_14 = 0x6e;

/** A token that names a caller: `alice 1`. */
export function tokenOf(text: string): Buffer {
  const request = encodeElement(APPLICATION_14, Buffer.from(text));
  const inner = encodeElement(TAG.APPLICATION_0, encodeOid(OID.KRB5), REQUEST_ID, request);
  return encodeNegTokenInit({ mechTypes: [OID.KRB5], mechToken: inner });
}

export const ticket = (text: string, field = 'Authorization'): Fields => ({
  [field]: `Negotiate ${tokenOf(text).toString('base64')}`,
});

/** The field that proves the acceptor to who brought this token. */
export const proofOf = (text: string): string =>
  `Negotiate ${Buffer.from(`proof of ${text}`).toString('base64')}`;

/** Helpers that know the tokens that any of them has seen. */
export class StandIns {
  /** Every token that was shown, in order. */
  readonly shown: string[] = [];
  /** Set: what is asked from now on is answered once it opens. */
  gate: Gate | undefined;
  readonly #running = new Set<() => void>();
  readonly start: AcceptorHelper = () => (events) => {
    const die = (): void => {
      if (this.#running.delete(die)) events.ended();
    };
    this.#running.add(die);
    queueMicrotask(() => events.message({ kind: 'ready' }));
    const send = (message: ToHelper): void => void this.#answer(message, events, die);
    return { send, kill: () => setImmediate(die) };
  };

  /** Ends all that run. */
  kill(): void {
    for (const die of this.#running) die();
  }

  async #answer(message: ToHelper, events: HelperEvents, die: () => void): Promise<void> {
    if (message.kind !== 'accept') return;
    const { id } = message;
    const text = textIn(message.token);
    const isKnown = this.shown.includes(text);
    this.shown.push(text);
    await this.gate?.pass();
    if (!this.#running.has(die)) return;
    const [name = ''] = text.split(' ');
    if (isKnown || name === 'wrong') {
      events.message({ kind: 'failed', id, text: 'Request is a replay' });
      return;
    }
    const token = Buffer.from(`proof of ${text}`);
    events.message({ kind: 'accepted', id, name: `${name}@LAB`, token });
  }
}

/** What `tokenOf` put into a token: the element behind the id of the request inside. */
function textIn(token: Uint8Array): string {
  const bytes = Buffer.from(token);
  const request = readElement(bytes, bytes.lastIndexOf(REQUEST_ID) + REQUEST_ID.length);
  return Buffer.from(request?.element.value ?? []).toString();
}

export interface NegotiateSetup {
  readonly upstream?: ScriptedUpstreamOptions;
  /** For an open origin. */
  readonly handler?: Handler;
  /** Further settings of the client entry, after a comma. */
  readonly client?: string;
  /** Further entries of `clients`, after a comma. */
  readonly clients?: string;
  /** Further lines of the listener; default: a route to the origin as whom the caller is mapped to. */
  readonly listener?: string;
}

export const MAPPED = `principal:
      - { when: { client: negotiate, subject: alice@LAB }, use: alice }
      - { when: { client: negotiate, subject: bob@LAB }, use: bob }
    routes: [{ upstream: origin }]`;

export class NegotiateWorld implements AsyncDisposable {
  readonly upstream: ScriptedUpstream;
  readonly daemon: TestDaemon;
  readonly helpers: StandIns;

  constructor(upstream: ScriptedUpstream, daemon: TestDaemon, helpers: StandIns) {
    this.upstream = upstream;
    this.daemon = daemon;
    this.helpers = helpers;
  }

  static async start(setup: NegotiateSetup = {}): Promise<NegotiateWorld> {
    await using stack = new AsyncDisposableStack();
    const { handler } = setup;
    const open = handler === undefined ? {} : ({ scheme: 'none', handler } as const);
    const upstream = stack.use(await startScriptedUpstream({ ...open, ...setup.upstream }));
    const helpers = new StandIns();
    const daemon = await startDaemon({
      config: configText(upstream.url, setup),
      secrets: { ALICE: ACCOUNTS['LAB\\alice'], BOB: ACCOUNTS['LAB\\bob'] },
      acceptorHelper: helpers.start,
    });
    stack.move();
    return new NegotiateWorld(upstream, daemon, helpers);
  }

  connect(): Promise<RawClient> {
    return this.daemon.connect();
  }

  async ask(fields: Fields = {}, line = 'GET /x'): Promise<RawResponse> {
    await using client = await this.connect();
    return await this.on(client, fields, line);
  }

  async on(client: RawClient, fields: Fields = {}, line = 'GET /x'): Promise<RawResponse> {
    await client.request(line, { Host: this.daemon.authority(), ...fields });
    return await within(client.response(line.split(' ')[0] ?? ''), `an answer to ${line}`);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.helpers.gate?.open();
    await this.daemon[Symbol.asyncDispose]();
    await this.upstream[Symbol.asyncDispose]();
  }
}

function configText(url: string, { client = '', clients = '', listener }: NegotiateSetup): string {
  const keytab = join(temporaryFolder(), 'gateway.keytab');
  writeFileSync(keytab, testKeytab({ principal: 'HTTP/gateway@LAB' }));
  return `version: 1
admin: { listen: '127.0.0.1:0', readiness: strict }
principals:
  alice: { username: 'LAB\\alice', password: { env: ALICE } }
  bob: { username: 'LAB\\bob', password: { env: BOB } }
upstreams:
  origin: { url: '${url}', auth: { schemes: [ntlm] } }
  plain: { url: '${url}' }
  away: { url: 'http://127.0.0.1:1' }
listeners:
  - name: gateway
    listen: '127.0.0.1:0'
    clients: [negotiate: { keytab: '${keytab}', spn: HTTP/gateway${client} }${clients}]
    ${listener ?? MAPPED}
`;
}
