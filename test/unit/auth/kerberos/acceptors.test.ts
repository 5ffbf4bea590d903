/** The acceptors of a process: what each helper sees of the outside, and what is left on disk. */
import assert from 'node:assert/strict';
import { existsSync, readFileSync, statSync } from 'node:fs';
import { describe, test } from 'node:test';
import { Acceptors } from '../../../../src/auth/kerberos/acceptors.ts';
import type { HelperPlace } from '../../../../src/auth/kerberos/helper-link.ts';
import { noLog } from '../../../../src/log/log.ts';
import { Secret } from '../../../../src/identity/secret.ts';
import { FakeClock } from '../../../support/fake-clock.ts';
import { FakeHelpers } from './fake-helper.ts';

class World implements AsyncDisposable {
  readonly clock = new FakeClock();
  readonly helpers = new FakeHelpers();
  readonly places: HelperPlace[] = [];
  readonly acceptors = new Acceptors({
    deadlines: this.clock.deadlines,
    clock: this.clock,
    log: noLog,
    onHelperRestart: () => undefined,
    helper: (place) => {
      this.places.push(place);
      return this.helpers.start;
    },
  });

  create(name: string): ReturnType<Acceptors['create']> {
    const keys = new Secret(Buffer.from(`keys of ${name}`));
    return this.acceptors.create({ spn: `HTTP/${name}`, keys, krb5Config: '/lab/krb5.conf' });
  }

  variable(index: number, name: string): string {
    return this.places[index]?.environment[name] ?? '';
  }

  keytab(index: number): string {
    return this.variable(index, 'KRB5_KTNAME').replace(/^FILE:/, '');
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.acceptors.close();
  }
}

describe('an acceptor helper', () => {
  test('A17 sees the keys of one name, which nobody else may read, and no other mechanism', async () => {
    await using world = new World();
    for (const name of ['one', 'two']) world.create(name).start();
    assert.deepEqual(
      [0, 1].map((index) => readFileSync(world.keytab(index), 'utf8')),
      ['keys of one', 'keys of two'],
    );
    assert.equal(statSync(world.keytab(0)).mode & 0o777, 0o600);
    assert.equal(statSync(world.places[0]?.folder ?? '').mode & 0o777, 0o700);
    assert.equal(world.variable(0, 'GSS_MECH_CONFIG'), '/dev/null');
    assert.match(world.variable(0, 'KRB5_CONFIG'), /:\/lab\/krb5\.conf$/);
  });

  test('R32 shares the replay cache with its successors and with all others', async () => {
    await using world = new World();
    world.create('one').start();
    world.create('two').start();
    world.helpers.get(0).die();
    world.clock.advance(100);
    const caches = world.places.map((_, index) => world.variable(index, 'KRB5RCACHENAME'));
    assert.equal(caches.length, 3);
    assert.equal(new Set(caches).size, 1);
    const [cache = ''] = caches;
    assert.ok(cache.startsWith(`file2:${world.places[0]?.folder ?? '?'}/`), cache);
    assert.equal(world.keytab(2), world.keytab(0));
  });
});

describe('the folder of acceptors', () => {
  test('is not made before a helper needs it, and goes with the last', async () => {
    const world = new World();
    const acceptor = world.create('one');
    assert.equal(world.places.length, 0);
    acceptor.start();
    const folder = world.places[0]?.folder ?? '';
    assert.ok(existsSync(folder));
    await world.acceptors.close();
    assert.ok(!existsSync(folder));
    assert.equal(world.helpers.get(0).isKilled, true);
  });

  test('keeps no keys of an acceptor that has retired, and what it has seen', async () => {
    await using world = new World();
    const acceptor = world.create('one');
    acceptor.start();
    world.helpers.get(0).say({ kind: 'ready' });
    await world.acceptors.retire(acceptor);
    assert.ok(!existsSync(world.keytab(0)));
    assert.ok(existsSync(world.places[0]?.folder ?? ''));
  });

  test('is not made again for a late caller', async () => {
    const world = new World();
    const acceptor = world.create('one');
    await world.acceptors.close();
    acceptor.start();
    assert.equal(world.places.length, 0);
  });
});
