/** Callers' passwords are proven before their tokens: kinit, the helper and the clock are stand-ins. */
import assert from 'node:assert/strict';
import { existsSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { CallerKerberos } from '../../../../src/auth/kerberos/caller-kerberos.ts';
import type { HelperPlace } from '../../../../src/auth/kerberos/helper-link.ts';
import type { KinitOrder } from '../../../../src/auth/kerberos/kinit.ts';
import { kerberosError } from '../../../../src/auth/kerberos/native-errors.ts';
import {
  createKerberosIdentity,
  type KerberosIdentity,
} from '../../../../src/identity/identity.ts';
import { Secret } from '../../../../src/identity/secret.ts';
import { noLog } from '../../../../src/log/log.ts';
import { FakeClock } from '../../../support/fake-clock.ts';
import { testCache } from '../../../support/kerberos-files.ts';
import { Asked, type FakeHelper, FakeHelpers } from './fake-helper.ts';
import { credentialVersion } from '../../../support/versioned-secrets.ts';

const LIFE_S = 3600;

interface Kinit {
  readonly order: KinitOrder;
  readonly password: string;
  ok(): Promise<void>;
  refuse(code?: 'credential-rejected' | 'kdc-timeout'): Promise<void>;
}

/** Lets promises that are settled go on. */
const settle = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

class World implements AsyncDisposable {
  readonly clock = new FakeClock();
  readonly helpers = new FakeHelpers();
  readonly kinits: Kinit[] = [];
  readonly passwords = new Map<string, string>();
  readonly places: HelperPlace[] = [];
  readonly kerberos: CallerKerberos;

  constructor(isPackagePresent = true) {
    this.kerberos = new CallerKerberos(
      {
        passwords: ({ credential }) => {
          const password = this.passwords.get(credential);
          return password === undefined ? undefined : new Secret(password);
        },
        krb5Config: '/etc/own.conf',
        deadlines: this.clock.deadlines,
        clock: this.clock,
        log: noLog,
        deadlineMs: 5000,
        onHelperRestart: () => undefined,
      },
      {
        isPackagePresent: () => isPackagePresent,
        helper: (place) => {
          this.places.push(place);
          return this.helpers.start;
        },
        kinit: () => (order) => this.#kinit(order),
      },
    );
  }

  /** Files with tickets. */
  get collection(): string[] {
    const folder = join(this.places[0]?.folder ?? '', 'collection');
    return existsSync(folder) ? readdirSync(folder) : [];
  }

  /** The helper, ready since the first call. */
  get helper(): FakeHelper {
    return this.helpers.get(0);
  }

  identity(name: string, password: string): KerberosIdentity {
    const credential = `${name} ${password}`;
    this.passwords.set(credential, password);
    return createKerberosIdentity({
      principal: 'caller',
      name,
      source: 'client',
      credential,
      version: credentialVersion(credential),
    });
  }

  ask(name: string, password: string, signal = new AbortController().signal): Asked {
    return new Asked(this.kerberos.initiate(this.identity(name, password), 'HTTP/web', signal));
  }

  /** Answers the last kinit, and lets the helper become ready. */
  async proven(): Promise<void> {
    await this.kinits.at(-1)?.ok();
    const [helper] = this.helpers.started;
    helper?.say({ kind: 'ready' });
    await settle();
  }

  /** A caller who is proven and got a token. */
  async welcome(name: string, password: string): Promise<void> {
    const asked = this.ask(name, password);
    await this.proven();
    this.helper.token(this.helper.calls.length - 1);
    (await asked.token()).dispose();
  }

  #kinit(order: KinitOrder): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const end = 1 + LIFE_S + Math.floor(this.clock.wall() / 1000);
    this.kinits.push({
      order,
      password: order.password.reveal(),
      ok: () => {
        writeFileSync(order.file, testCache(order.principal, { server: 'krbtgt/R@R', end }));
        resolve();
        return settle();
      },
      refuse: (code = 'credential-rejected') => {
        reject(kerberosError(code, 'said the KDC'));
        return settle();
      },
    });
    order.signal.addEventListener('abort', () => reject(kerberosError('shutting-down', 'closed')));
    return promise;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.kerberos.close();
  }
}

describe('a caller with a password', () => {
  test('gets a token only after a kinit with that very password', async () => {
    await using world = new World();
    const asked = world.ask('alice@R', 'right');
    assert.deepEqual(
      world.kinits.map(({ order, password }) => [order.principal, password]),
      [['alice@R', 'right']],
    );
    assert.equal(world.helpers.started.length, 0, 'nothing is asked for before the proof');
    await world.proven();
    assert.deepEqual(world.helper.calls, ['alice@R HTTP/web']);
    world.helper.token(0);
    (await asked.token()).dispose();
    assert.equal(world.collection.length, 1);
  });

  test('is proven once until the ticket ends', async () => {
    await using world = new World();
    await world.welcome('alice@R', 'right');
    for (let i = 1; i < 5; i += 1) {
      const asked = world.ask('alice@R', 'right');
      await settle();
      world.helper.token(i);
      (await asked.token()).dispose();
    }
    assert.equal(world.kinits.length, 1);
    world.clock.advance(LIFE_S * 1000);
    world.ask('alice@R', 'right');
    assert.equal(world.kinits.length, 2);
  });

  test('with a wrong one right after the right one is refused, and asks for no token', async () => {
    await using world = new World();
    await world.welcome('alice@R', 'right');
    const wrong = world.ask('alice@R', 'wrong');
    await settle();
    assert.equal(world.helper.calls.length, 1);
    await world.kinits[1]?.refuse();
    assert.equal(await wrong.code(), 'credential-rejected');
    assert.equal(world.helper.calls.length, 1);
    assert.equal(world.collection.length, 1);
    const right = world.ask('alice@R', 'right');
    await settle();
    assert.equal(world.kinits.length, 2, 'the right one is proven still');
    world.helper.token(1);
    (await right.token()).dispose();
  });

  test('another one that is right takes its place: the old one has to prove itself again', async () => {
    await using world = new World();
    await world.welcome('alice@R', 'old');
    await world.welcome('alice@R', 'new');
    assert.equal(world.collection.length, 1);
    const old = world.ask('alice@R', 'old');
    await world.kinits[2]?.refuse();
    assert.equal(await old.code(), 'credential-rejected');
    const renewed = world.ask('alice@R', 'new');
    await settle();
    assert.equal(world.kinits.length, 3);
    world.helper.token(2);
    (await renewed.token()).dispose();
  });

  test('that the KDC took before and refuses now has no tickets any more', async () => {
    await using world = new World();
    await world.welcome('alice@R', 'right');
    world.clock.advance(LIFE_S * 1000);
    const again = world.ask('alice@R', 'right');
    await world.kinits[1]?.refuse();
    assert.equal(await again.code(), 'credential-rejected');
    assert.deepEqual(world.collection, []);
  });

  test('shares a kinit that is under way for the same password, and no other', async () => {
    await using world = new World();
    const asked = [1, 2, 3].map(() => world.ask('alice@R', 'right'));
    const other = world.ask('alice@R', 'wrong');
    assert.deepEqual(
      world.kinits.map(({ password }) => password),
      ['right', 'wrong'],
    );
    await world.kinits[1]?.refuse();
    assert.equal(await other.code(), 'credential-rejected');
    await world.kinits[0]?.ok();
    world.helper.say({ kind: 'ready' });
    await settle();
    world.helper.token(0);
    await settle();
    for (const at of [1, 2]) world.helper.token(at);
    for (const each of asked) (await each.token()).dispose();
  });

  test('who leaves does not hide what the KDC says', async () => {
    await using world = new World();
    const leaving = new AbortController();
    const asked = world.ask('alice@R', 'wrong', leaving.signal);
    leaving.abort();
    assert.ok(await asked.isPending());
    await world.kinits[0]?.refuse();
    assert.equal(await asked.code(), 'credential-rejected');
  });

  test('runs no more than sixteen kinits at a time', async () => {
    await using world = new World();
    const asked = Array.from({ length: 40 }, (_, i) => world.ask(`user-${i}@R`, 'x'));
    assert.equal(world.kinits.length, 16);
    for (let done = 0; done < 40; done += 1) await world.kinits[done]?.refuse();
    for (const each of asked) assert.equal(await each.code(), 'credential-rejected');
    assert.equal(world.kinits.length, 40);
  });

  test('I12 keeps tickets of 512 names at most', async () => {
    await using world = new World();
    for (let i = 0; i < 520; i += 1) await world.welcome(`user-${i}@R`, 'x');
    assert.equal(world.collection.length, 512);
    world.ask('user-0@R', 'x');
    await settle();
    assert.equal(world.kinits.length, 521);
  });

  test('is refused when nobody keeps the password any more', async () => {
    await using world = new World();
    const identity = world.identity('alice@R', 'right');
    world.passwords.clear();
    const asked = new Asked(
      world.kerberos.initiate(identity, 'HTTP/web', new AbortController().signal),
    );
    assert.equal(await asked.code(), 'credential-missing');
    assert.equal(world.kinits.length, 0);
  });

  test('sends no password to a KDC where the package is missing', async () => {
    await using world = new World(false);
    assert.equal(await world.ask('alice@R', 'right').code(), 'mechanism-unavailable');
    assert.equal(world.kinits.length, 0);
  });

  test('is proven once more when his tickets are gone, and once only', async () => {
    await using world = new World();
    await world.welcome('alice@R', 'right');
    const asked = world.ask('alice@R', 'right');
    await settle();
    const gone = 'No credentials cache found';
    world.helper.fail(1, gone);
    // A cached ticket that did not do is asked for again by the lane itself.
    await settle();
    if (world.helper.calls.length > 2) world.helper.fail(2, gone);
    await settle();
    assert.equal(world.kinits.length, 2);
    await world.kinits[1]?.ok();
    const last = world.helper.calls.length - 1;
    world.helper.fail(last, gone);
    assert.equal(await asked.code(), 'credential-missing');
    assert.equal(world.kinits.length, 2);
  });
});

test('closing ends kinits and helpers, and leaves no folder behind', async () => {
  const world = new World();
  await world.welcome('alice@R', 'right');
  const waiting = world.ask('bob@R', 'x');
  const folder = world.places[0]?.folder ?? '';
  assert.ok(existsSync(folder));
  assert.match(world.places[0]?.environment['KRB5CCNAME'] ?? '', /^DIR:.*\/collection$/);
  await world.kerberos.close();
  assert.equal(await waiting.code(), 'shutting-down');
  assert.ok(world.helper.isKilled);
  assert.equal(existsSync(folder), false);
});
