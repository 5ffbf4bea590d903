/**
 * A listener with three kinds of callers in front of a scripted NTLM origin: tokens of one issuer whose
 * keys come from a server, passwords of a user file, names that a trusted proxy sets.
 */
import { hashSync } from 'bcryptjs';
import { startDaemon, type TestDaemon } from '../support/daemon.ts';
import { type JwksReply, type JwksServer, startJwksServer } from '../support/jwks-server.ts';
import type { RawClient, RawResponse } from '../support/raw-client.ts';
import { type ScriptedUpstream, startScriptedUpstream } from '../support/scripted-upstream.ts';
import { AUDIENCE, goodClaims, ISSUER, jwks, signingKey, signToken } from '../support/tokens.ts';
import { ACCOUNTS, type ScriptedUpstreamOptions } from '../support/upstream-options.ts';
import { within } from '../support/waiting.ts';

export type Fields = Readonly<Record<string, string>>;

export interface CallersSetup {
  readonly upstream?: ScriptedUpstreamOptions;
  /** Further settings of the jwt client, after a comma. */
  readonly jwt?: string;
  /** Rules of the listener; default: by kind and subject. */
  readonly rules?: string;
  /** Routes of the listener. */
  readonly routes?: string;
  /** Entries of `clients`; default: all three kinds. */
  readonly clients?: string;
  /** Further keys of the listener, on a line of their own. */
  readonly listener?: string;
  readonly readiness?: 'normal' | 'strict';
  /** The first key set; default: the one of `signingKey()`. */
  readonly keys?: string;
  readonly users?: string;
  /** What the key server does at first; default: it answers with `keys`. */
  readonly reply?: JwksReply;
}

/** alice and bob are alice and bob, however they come; whoever is called otherwise has no principal. */
const rulesFor = (clients: string): string =>
  ['jwt', 'basic', 'header']
    .filter((kind) => clients.includes(`${kind}: `))
    .flatMap((kind) =>
      ['alice', 'bob'].map(
        (user) => `{ when: { client: ${kind}, subject: ${user} }, use: ${user} }`,
      ),
    )
    .join(', ');

const USERS = { alice: 'alice-gate', bob: 'bob-gate', carol: 'carol-gate' } as const;

/** A user file with cheap hashes. */
export const userFile = (users: Readonly<Record<string, string>> = USERS): string =>
  Object.entries(users)
    .map(([name, password]) => `${name}:${hashSync(password, 4)}`)
    .join('\n');

export const basic = (user: string, password: string): Fields => ({
  Authorization: `Basic ${Buffer.from(`${user}:${password}`).toString('base64')}`,
});

export const bearer = (token: string): Fields => ({ Authorization: `Bearer ${token}` });

/** A good token of `sub`, with these claims laid over. */
export const tokenOf = (sub: string, claims: Record<string, unknown> = {}): string =>
  signToken(signingKey(), goodClaims(Date.now(), { sub, ...claims }));

/** One caller in each of the three ways. */
export const WAYS: Readonly<Record<string, (user: string) => Fields>> = {
  jwt: (user) => bearer(tokenOf(user)),
  basic: (user) => basic(user, `${user}-gate`),
  header: (user) => ({ 'X-Remote-User': user }),
};

export class CallersWorld implements AsyncDisposable {
  readonly upstream: ScriptedUpstream;
  readonly idp: JwksServer;
  readonly daemon: TestDaemon;

  constructor(upstream: ScriptedUpstream, idp: JwksServer, daemon: TestDaemon) {
    this.upstream = upstream;
    this.idp = idp;
    this.daemon = daemon;
  }

  /** Started, and ready unless the key server keeps it from that. */
  static async start(setup: CallersSetup = {}): Promise<CallersWorld> {
    await using stack = new AsyncDisposableStack();
    const upstream = stack.use(await startScriptedUpstream(setup.upstream));
    const idp = stack.use(await startJwksServer(setup.keys ?? jwks(signingKey())));
    if (setup.reply !== undefined) idp.reply = setup.reply;
    const daemon = await startDaemon({
      config: configText(upstream.url, idp.url.href, setup),
      secrets: {
        ALICE: ACCOUNTS['LAB\\alice'],
        BOB: ACCOUNTS['LAB\\bob'],
        USERS: setup.users ?? userFile(),
      },
    });
    stack.move();
    return new CallersWorld(upstream, idp, daemon);
  }

  /** The same, with the keys loaded. */
  static async ready(setup: CallersSetup = {}): Promise<CallersWorld> {
    const world = await CallersWorld.start(setup);
    await world.becomesReady();
    return world;
  }

  async becomesReady(): Promise<void> {
    await this.daemon.measured(
      (metrics) => metrics.sum('sidekerb_jwks_refreshes_total', { result: 'ok' }) > 0,
      'the keys are loaded',
    );
  }

  connect(): Promise<RawClient> {
    return this.daemon.connect();
  }

  /** One request on a connection of its own. */
  async ask(fields: Fields = {}, line = 'GET /x', body = ''): Promise<RawResponse> {
    await using client = await this.connect();
    return await this.on(client, fields, line, body);
  }

  async on(
    client: RawClient,
    fields: Fields = {},
    line = 'GET /x',
    body = '',
  ): Promise<RawResponse> {
    await client.request(line, { Host: this.daemon.authority(), ...fields }, body);
    return await within(client.response(line.split(' ')[0] ?? ''), `an answer to ${line}`);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.daemon[Symbol.asyncDispose]();
    await this.idp[Symbol.asyncDispose]();
    await this.upstream[Symbol.asyncDispose]();
  }
}

/** The reason in an answer of the daemon's own. */
export const reasonOf = (answer: RawResponse): string =>
  /details="([^"]+)"/.exec(answer.field('Proxy-Status') ?? '')?.[1] ?? '';

function configText(url: string, keys: string, setup: CallersSetup): string {
  const more = setup.jwt === undefined ? '' : `, ${setup.jwt}`;
  const jwt = `jwt: { issuer: '${ISSUER}', audience: ${AUDIENCE}, jwks: '${keys}'${more} }`;
  const all = `{ JWT }, basic: { users: { env: USERS }, realm: LAB }, header: { name: X-Remote-User, from: [127.0.0.1] }`;
  const clients = (setup.clients ?? all).replace('JWT', jwt);
  return `version: 1
admin: { listen: '127.0.0.1:0', readiness: ${setup.readiness ?? 'normal'} }
principals:
  alice: { username: 'LAB\\alice', password: { env: ALICE } }
  bob: { username: 'LAB\\bob', password: { env: BOB } }
  self: { from: client }
upstreams:
  origin: { url: '${url}', auth: { schemes: [ntlm] } }
  plain: { url: '${url}' }
listeners:
  - name: gateway
    listen: '127.0.0.1:0'
    clients: [${clients}]
    principal: [${setup.rules ?? rulesFor(clients)}]
    routes: [${setup.routes ?? '{ upstream: origin }'}]
    ${setup.listener ?? ''}
`;
}
