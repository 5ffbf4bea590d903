/** When kinit is run for a password, and with what: the clock and kinit are stand-ins. */
import assert from 'node:assert/strict';
import { existsSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { describe, test } from 'node:test';
import { RealmBreakers } from '../../../../src/auth/kerberos/breaker.ts';
import type { KinitOrder } from '../../../../src/auth/kerberos/kinit.ts';
import { kerberosError } from '../../../../src/auth/kerberos/native-errors.ts';
import { PasswordTickets } from '../../../../src/auth/kerberos/password-tickets.ts';
import { PrivateFolder } from '../../../../src/auth/kerberos/private-folder.ts';
import type { ErrorCode } from '../../../../src/errors.ts';
import { createKerberosIdentity } from '../../../../src/identity/identity.ts';
import { Secret } from '../../../../src/identity/secret.ts';
import { noLog } from '../../../../src/log/log.ts';
import { FakeClock } from '../../../support/fake-clock.ts';
import { testCache } from '../../../support/kerberos-files.ts';
import { credentialVersion } from '../../../support/versioned-secrets.ts';

const ALICE = createKerberosIdentity({
  principal: 'crm',
  name: 'alice@LAB.TEST',
  source: 'password',
  credential: '',
  version: credentialVersion(),
});
const HOUR = 3_600_000;

class World implements Disposable {
  readonly clock = new FakeClock();
  readonly folder = new PrivateFolder();
  readonly breakers = new RealmBreakers(this.clock);
  readonly orders: KinitOrder[] = [];
  readonly renewed: string[] = [];
  readonly silent: string[] = [];
  password: string | undefined = 'first';
  /** What the next kinits end with. */
  refusal: ErrorCode | undefined;
  /** Held back while set. */
  hold: Promise<void> | undefined;
  readonly tickets = new PasswordTickets({
    folder: this.folder,
    kinit: async (order) => {
      this.orders.push(order);
      await this.hold;
      if (this.refusal !== undefined) throw kerberosError(this.refusal, 'refused');
      const end = Math.floor((this.clock.wall() + HOUR) / 1000);
      const server = 'krbtgt/LAB.TEST@LAB.TEST';
      writeFileSync(order.file, testCache(order.principal, { server, end }), { mode: 0o600 });
    },
    passwords: () => (this.password === undefined ? undefined : new Secret(this.password)),
    breakers: this.breakers,
    deadlines: this.clock.deadlines,
    clock: this.clock,
    log: noLog,
    renewed: (name) => this.renewed.push(name),
    realmFailed: (realm, error) => {
      this.silent.push(realm);
      this.breakers.failed(realm, error);
    },
  });
  readonly file = this.folder.cacheFile(1);

  ensure(): Promise<void> {
    return this.tickets.ensure(ALICE, this.file);
  }

  /** The passwords that kinit was given. */
  get passwords(): string[] {
    return this.orders.map(({ password }) => password.reveal());
  }

  [Symbol.dispose](): void {
    this.tickets.close();
    this.folder.remove();
  }
}

/** What hangs on promises alone is over. */
const settled = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

describe('tickets of a password', () => {
  test('are fetched at the first use, once for all who ask meanwhile', async () => {
    using world = new World();
    await Promise.all([world.ensure(), world.ensure(), world.ensure()]);
    await world.ensure();
    assert.deepEqual(world.passwords, ['first']);
    assert.equal(world.orders[0]?.principal, 'alice@LAB.TEST');
    assert.deepEqual(world.renewed, ['alice@LAB.TEST']);
    assert.ok(readFileSync(world.file).includes('alice'));
    assert.equal(statSync(world.file).mode & 0o777, 0o600);
    assert.ok(!existsSync(world.orders[0]?.file ?? ''));
  });

  test('are renewed before they end, again and again', async () => {
    using world = new World();
    await world.ensure();
    for (const count of [2, 3, 4]) {
      world.clock.advance(HOUR * 0.6 - 1000);
      await settled();
      assert.equal(world.orders.length, count - 1);
      world.clock.advance(2000);
      await settled();
      assert.equal(world.orders.length, count);
    }
  });

  test('that could not be renewed serve to their end, while renewal is tried on', async () => {
    using world = new World();
    await world.ensure();
    world.refusal = 'kdc-unreachable';
    world.clock.advance(HOUR * 0.6 + 1000);
    await settled();
    assert.equal(world.orders.length, 2);
    assert.deepEqual(world.silent, ['LAB.TEST']);
    await world.ensure();
    world.clock.advance(31_000);
    await settled();
    assert.equal(world.orders.length, 3);
    world.refusal = undefined;
    world.clock.advance(31_000);
    await settled();
    assert.equal(world.renewed.length, 2);
  });

  test('are not fetched in the background with a password that was refused', async () => {
    using world = new World();
    await world.ensure();
    world.refusal = 'credential-rejected';
    world.clock.advance(HOUR * 0.6 + 1000);
    await settled();
    assert.equal(world.orders.length, 2);
    world.clock.advance(HOUR);
    await settled();
    assert.equal(world.orders.length, 2);
    await assert.rejects(world.ensure(), { code: 'credential-rejected' });
  });

  test('are fetched anew by whoever asks when they have ended', async () => {
    using world = new World();
    await world.ensure();
    world.clock.block(HOUR);
    await world.ensure();
    assert.equal(world.orders.length, 2);
  });

  test('R15 of an old password are not given out once there is a new one', async () => {
    using world = new World();
    await world.ensure();
    world.password = 'second';
    await world.ensure();
    assert.deepEqual(world.passwords, ['first', 'second']);
  });

  test('R15 a new password is turned into tickets before somebody asks', async () => {
    using world = new World();
    await world.ensure();
    world.tickets.refresh([ALICE]);
    await settled();
    assert.equal(world.orders.length, 1);
    world.password = 'second';
    world.tickets.refresh([ALICE]);
    await settled();
    assert.deepEqual(world.passwords, ['first', 'second']);
  });

  test('of one name are not those of another one under the same entry of the configuration', async () => {
    using world = new World();
    await world.ensure();
    const bob = createKerberosIdentity({ ...ALICE, name: 'bob@LAB.TEST' });
    world.tickets.refresh([bob]);
    await world.tickets.ensure(bob, world.folder.cacheFile(2));
    assert.deepEqual(
      world.orders.map(({ principal }) => principal),
      ['alice@LAB.TEST', 'bob@LAB.TEST'],
    );
  });

  test('R15 a password that changes while the old one is being tried is tried after it', async () => {
    using world = new World();
    const { promise, resolve } = Promise.withResolvers<void>();
    world.hold = promise;
    const first = world.ensure();
    world.password = 'second';
    const second = world.ensure();
    resolve();
    await Promise.all([first, second]);
    assert.deepEqual(world.passwords, ['first', 'second']);
  });

  test('of a principal that was taken away are not renewed', async () => {
    using world = new World();
    await world.ensure();
    world.tickets.refresh([]);
    world.clock.advance(HOUR);
    await settled();
    assert.equal(world.orders.length, 1);
  });

  test('are asked for only where the realm answers, and its answer is noted', async () => {
    using world = new World();
    world.breakers.failed('LAB.TEST', kerberosError('kdc-timeout', 'silent'));
    await assert.rejects(world.ensure(), { code: 'kdc-timeout' });
    assert.equal(world.orders.length, 0);
    world.clock.advance(1000);
    world.refusal = 'credential-rejected';
    await assert.rejects(world.ensure(), { code: 'credential-rejected' });
    assert.deepEqual(world.breakers.admit('LAB.TEST'), { kind: 'go' });
  });

  test('need a password', async () => {
    using world = new World();
    world.password = undefined;
    await assert.rejects(world.ensure(), { code: 'credential-missing' });
  });

  test('are under way no longer when the daemon closes', async () => {
    using world = new World();
    world.hold = new Promise(() => undefined);
    void world.ensure();
    await settled();
    world.tickets.close();
    assert.equal(world.orders[0]?.signal.aborted, true);
  });
});
