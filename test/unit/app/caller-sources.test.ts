/** What a configuration takes over from the one before: the keys that are in force, in that moment. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { Acceptors } from '../../../src/auth/kerberos/acceptors.ts';
import { type CallerSourceDeps, CallerSources } from '../../../src/app/caller-sources.ts';
import { ProxyError } from '../../../src/errors.ts';
import { parseCompactToken } from '../../../src/inbound/jwt/compact-token.ts';
import { tokenDigest } from '../../../src/inbound/jwt/jwt-verifier.ts';
import { noLog } from '../../../src/log/log.ts';
import { Metrics } from '../../../src/metrics/metrics.ts';
import { FakeClock } from '../../support/fake-clock.ts';
import { type JwksServer, startJwksServer } from '../../support/jwks-server.ts';
import {
  goodClaims,
  ISSUER,
  jwks,
  type SigningKey,
  signingKey,
  signToken,
} from '../../support/tokens.ts';
import { Gate, until } from '../../support/waiting.ts';
import { loaded } from '../config/loading.ts';

const ONE = signingKey({ kid: 'one' });
const TWO = signingKey({ kid: 'two', nth: 1 });

class World implements Disposable {
  readonly server: JwksServer;
  readonly clock = new FakeClock();
  readonly #deps: CallerSourceDeps;
  readonly #all: CallerSources[] = [];

  constructor(server: JwksServer) {
    this.server = server;
    const { clock } = this;
    const { deadlines } = clock;
    const names = { listeners: ['gateway'], upstreams: ['origin'], principals: [] };
    const metrics = new Metrics({ ...names, issuers: [ISSUER], version: '' });
    const checks = { check: () => Promise.resolve(false) };
    const meters = { request() {}, hit() {}, entered() {}, left() {} };
    const userDatabases = { clock, checks, meters };
    const acceptors = new Acceptors({ clock, deadlines, log: noLog, onHelperRestart: () => {} });
    this.#deps = { clock, deadlines, log: noLog, metrics, userDatabases, acceptors };
  }

  /** Of a configuration with these audiences, not in force yet. */
  sources(audience: string, previous: CallerSources | undefined): CallerSources {
    const config = loaded(`version: 1
upstreams: { origin: { url: 'http://origin.test' } }
listeners:
  - name: gateway
    listen: '127.0.0.1:0'
    clients: [jwt: { issuer: '${ISSUER}', audience: ${audience}, jwks: '${this.server.url.href}', refresh: 1m }]
    routes: [{ upstream: origin }]
`);
    const sources = new CallerSources(config, this.#deps, previous);
    this.#all.push(sources);
    return sources;
  }

  async verdict(sources: CallerSources, key: SigningKey): Promise<string> {
    const token = signToken(key, goodClaims(this.clock.wall(), { aud: ['api', 'other'] }));
    const bytes = Buffer.from(token);
    const parsed = parseCompactToken(bytes, 0, bytes.length);
    assert.ok(!(parsed instanceof ProxyError));
    const [issuer] = sources.issuers.values();
    assert.ok(issuer);
    const found = await issuer.verifier.verify(parsed, tokenDigest(bytes, 0, bytes.length));
    return found instanceof ProxyError ? found.code : 'ok';
  }

  [Symbol.dispose](): void {
    for (const sources of this.#all) sources.end();
  }
}

const keysOf = (sources: CallerSources): number | undefined =>
  [...sources.issuers.values()][0]?.remote?.keys?.length;

describe('an issuer with changed settings', () => {
  test('R48 has the keys of its URL as they are when it comes in force, not when it was made', async () => {
    await using server = await startJwksServer(jwks(ONE, TWO));
    using world = new World(server);
    const before = world.sources('api', undefined);
    before.putInForce(undefined);
    await until(() => keysOf(before) === 2, 'both keys are loaded');
    const after = world.sources('[api, other]', before);
    // In the moment of the reload one of them is withdrawn, and then the server is silent.
    server.serve(jwks(ONE));
    world.clock.advance(60_100);
    await until(() => keysOf(before) === 1, 'one key is withdrawn');
    const gate = new Gate();
    server.reply = { kind: 'held', gate, next: { kind: 'hang-up' } };
    after.putInForce(before);
    assert.equal(await world.verdict(after, ONE), 'ok');
    const asked = world.verdict(after, TWO);
    await until(() => gate.arrivals > 0, 'the server is asked about the unknown key');
    gate.open();
    assert.equal(await asked, 'caller-token-refused');
  });
});
