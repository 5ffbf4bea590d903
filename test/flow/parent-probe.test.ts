/** The guard's probes at a parent: a probe asks for what was let in before, and serves no request by itself. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { startScriptedUpstream } from '../support/scripted-upstream.ts';
import { type ParentSetup, type ParentWorld, startParent } from './parent-world.ts';

/** A parent whose password of pat, and whether it asks at all, is the test's to change. */
class Moody implements AsyncDisposable {
  readonly #world: ParentWorld;
  readonly #accounts: Record<string, string>;
  readonly #mood: { asks: boolean };

  private constructor(
    world: ParentWorld,
    accounts: Record<string, string>,
    mood: { asks: boolean },
  ) {
    this.#world = world;
    this.#accounts = accounts;
    this.#mood = mood;
  }

  static async start(setup: ParentSetup = {}): Promise<Moody> {
    const accounts: Record<string, string> = { 'LAB\\pat': 'pat-secret' };
    const mood = { asks: true };
    const parent = { ...setup.parent, accounts, open: () => !mood.asks };
    return new Moody(await startParent({ ...setup, parent }), accounts, mood);
  }

  get world(): ParentWorld {
    return this.#world;
  }

  /** The password that the parent knows from now on. */
  know(password: string): void {
    this.#accounts['LAB\\pat'] = password;
  }

  /** The parent asks nobody any more. */
  calmDown(): void {
    this.#mood.asks = false;
  }

  async get(host: string): Promise<string> {
    const answer = await this.#world.ask(`GET http://${host}/x`);
    return answer.status === 200 ? answer.body.toString() : String(answer.status);
  }

  /** One request inside of a tunnel: what it was answered, or the status of a tunnel that was refused. */
  async tunnelled(host: string): Promise<string> {
    const { client } = await this.#world.connect(`${host}:443`);
    await using tunnel = client;
    const { status } = await tunnel.head();
    if (status !== 200) return String(status);
    await tunnel.request('GET /x', { Host: host });
    return (await tunnel.response()).body.toString();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#world[Symbol.asyncDispose]();
  }
}

describe('the last try before the guard opens', () => {
  const KINDS = ['get', 'tunnelled'] as const;
  const MOODS = ['knows the password again', 'asks nobody any more', 'still refuses'] as const;
  for (const before of KINDS) {
    for (const after of KINDS) {
      for (const mood of MOODS) {
        const title = `after ${before} elsewhere, at a parent that ${mood}, serves ${after} as asked`;
        test(title, async () => {
          await using decoy = await startScriptedUpstream({
            scheme: 'none',
            handler: () => ({ body: 'decoy' }),
          });
          await using real = await startScriptedUpstream({
            scheme: 'none',
            handler: () => ({ body: 'real' }),
          });
          const origins = {
            'decoy.test:80': decoy.port,
            'decoy.test:443': decoy.port,
            'real.test:80': real.port,
            'real.test:443': real.port,
          };
          await using moody = await Moody.start({ parent: { origins } });
          const { world } = moody;
          assert.equal(await moody[before]('decoy.test'), 'decoy');
          await world.dropAll();
          moody.know('another');
          for (let n = 0; n < 2; n += 1) assert.equal(await moody[after]('real.test'), '502');
          if (mood === 'knows the password again') moody.know('pat-secret');
          if (mood === 'asks nobody any more') moody.calmDown();
          const expected = mood === 'still refuses' ? '502' : 'real';
          assert.equal(await moody[after]('real.test'), expected);
          if (mood === 'still refuses') assert.equal(await moody[after]('real.test'), '503');
          for (const { method, target, fields } of world.parent.requests) {
            const form = method === 'CONNECT' ? /^[a-z.]+:\d+$/ : /^http:\/\/[a-z.]+\//;
            assert.match(target, form, method);
            const host = fields.find(([name]) => name.toLowerCase() === 'host')?.[1] ?? '';
            assert.ok(target.includes(host), `${method} ${target} with Host ${host}`);
          }
        });
      }
    }
  }
});

describe('a probe elsewhere that was let in', () => {
  test('leads to a login of the request, also where each login is a probe', async () => {
    await using world = await startParent({ guard: 'rejections: 1' });
    for (const host of ['app.test:443', 'other.test:443', 'app.test:443']) {
      await using tunnel = await world.tunnel(host);
      await tunnel.request('GET /x', { Host: host });
      assert.equal((await tunnel.response()).status, 200);
      assert.equal((await world.ask(`GET http://${host.slice(0, -4)}/x`)).status, 200);
    }
  });

  test('makes a refusal of the request a denial, which shuts nothing', async () => {
    await using world = await startParent({
      parent: { deny: ({ target }) => (target.startsWith('other') ? '401-challenge' : undefined) },
    });
    assert.equal((await world.ask('GET http://app.test/x')).status, 200);
    const statuses: number[] = [];
    for (let n = 0; n < 7; n += 1) {
      const { client } = await world.connect('other.test:443');
      await using refused = client;
      statuses.push((await refused.head()).status);
    }
    assert.deepEqual(statuses, [502, 502, 403, 502, 502, 403, 502]);
    await using allowed = await world.tunnel('app.test:443');
    await allowed.request('GET /x', { Host: 'app.test' });
    assert.equal((await allowed.response()).status, 200);
  });
});

test('R31 a parent that closes its connections after each login ends one behind it', async () => {
  await using world = await startParent({
    origin: { scheme: 'ntlm' },
    parent: { login: { type3: 'close' } },
    upstreams: {
      app: `{ url: 'http://app.test', auth: { principal: alice, schemes: [ntlm] } }`,
    },
    listener: 'via: [corp], origins: [app]',
  });
  assert.equal((await world.ask('GET http://other.test/x')).status, 401);
  const before = world.parent.count('type3');
  const answer = await world.ask('GET http://app.test/x');
  assert.equal(answer.status, 502);
  assert.match(answer.field('Proxy-Status') ?? '', /handshake-failed/);
  assert.ok(world.parent.count('type3') - before <= 2);
});
