/** The users of one file and realm, and the memory of passwords that were right (R49). */
import assert from 'node:assert/strict';
import { inspect } from 'node:util';
import { describe, test } from 'node:test';
import { ProxyError } from '../../../../src/errors.ts';
import { parseHtpasswd } from '../../../../src/identity/htpasswd.ts';
import type { PasswordHash } from '../../../../src/identity/hash-form.ts';
import { createBasicCaller } from '../../../../src/inbound/basic-credentials.ts';
import type { PasswordCheck } from '../../../../src/inbound/htpasswd/password-checks.ts';
import { isPasswordOf } from '../../../../src/inbound/htpasswd/password-hash.ts';
import {
  UserDatabase,
  type UserDatabaseSettings,
} from '../../../../src/inbound/htpasswd/user-database.ts';
import { FakeClock } from '../../../support/fake-clock.ts';
import { Gate } from '../../../support/waiting.ts';

/** Passwords: `apple` of alice, `banana` of bob. */
const ALICE = 'alice:$apr1$CkMkewhX$pOXtCMRyNmL/yxDmiAPTx1';
/** Of the callers. */
const ADDRESS = '192.0.2.1';

const BOB = 'bob:$2y$04$F5L9XXkmYGBW3hsbECNGzOhj4vf.Wgjbn2oimSjc6ZGzQeWmuCfo2';

function usersOf(...lines: readonly string[]): ReadonlyMap<string, PasswordHash> {
  const reading = parseHtpasswd(lines.join('\n'));
  assert.ok('users' in reading, JSON.stringify(reading));
  return reading.users;
}

class World {
  readonly clock = new FakeClock();
  readonly users: ReadonlyMap<string, PasswordHash>;
  /** Every check that was asked for. */
  readonly made: PasswordCheck[] = [];
  readonly counted = { requests: 0, hits: 0, entries: 0, full: 0, expired: 0, changed: 0 };
  readonly database: UserDatabase;
  /** Checks end when it is opened; undefined: at once. */
  gate: Gate | undefined;
  /** What the next checks end with, without a look at the password. */
  fixed: boolean | ProxyError | undefined;

  constructor(users = usersOf(ALICE, BOB)) {
    this.users = users;
    this.database = this.another({ users, realm: 'LAB' });
  }

  /** A database that shares clock, checks and counts. */
  another(settings: UserDatabaseSettings): UserDatabase {
    const { clock, counted } = this;
    const meters = {
      request: () => (counted.requests += 1),
      hit: () => (counted.hits += 1),
      entered: () => (counted.entries += 1),
      left: (reason: 'full' | 'expired' | 'changed', count: number) => {
        counted[reason] += count;
        counted.entries -= count;
      },
    };
    const check = async (asked: PasswordCheck): Promise<boolean | ProxyError> => {
      this.made.push(asked);
      await this.gate?.pass();
      return this.fixed ?? isPasswordOf(asked.password.reveal(), asked.hash);
    };
    return new UserDatabase({ clock, meters, checks: { check } }, settings);
  }

  /** As a listener asks: memory first, then the check. */
  async ask(user: string, password: string, database = this.database): Promise<string> {
    const caller = createBasicCaller(user, password);
    if (database.isKnown(caller.digest)) return 'known';
    const verdict = await database.verify(caller, ADDRESS);
    return verdict instanceof ProxyError ? verdict.code : verdict;
  }

  isKnown(user: string, password: string, database = this.database): boolean {
    return database.isKnown(createBasicCaller(user, password).digest);
  }
}

describe('a user database', () => {
  test('takes users with their passwords, and nobody else', async () => {
    const world = new World();
    assert.equal(await world.ask('alice', 'apple'), 'ok');
    assert.equal(await world.ask('bob', 'banana'), 'ok');
    const others = [
      ['alice', 'banana'],
      ['alice', ''],
      ['Alice', 'apple'],
      ['alice ', 'apple'],
      ['nobody', 'apple'],
      ['constructor', 'apple'],
    ] as const;
    for (const [user, password] of others) {
      assert.equal(await world.ask(user, password), 'wrong', `${user}:${password}`);
    }
  });

  test('knows a pair for five minutes from its check, however often it comes', async () => {
    const world = new World();
    await world.ask('alice', 'apple');
    for (let minute = 1; minute < 5; minute += 1) {
      world.clock.advance(60_000);
      assert.equal(await world.ask('alice', 'apple'), 'known');
    }
    world.clock.advance(59_999);
    assert.equal(await world.ask('alice', 'apple'), 'known');
    assert.equal(world.made.length, 1);
    world.clock.advance(1);
    assert.equal(await world.ask('alice', 'apple'), 'ok');
    assert.equal(world.made.length, 2);
  });

  test('never knows a wrong password: before, after and between right ones', async () => {
    const world = new World();
    const words: string[] = [];
    for (const password of ['wrong', 'apple', 'wrong', 'apple', 'wrong', 'apple']) {
      words.push(await world.ask('alice', password));
    }
    assert.deepEqual(words, ['wrong', 'ok', 'wrong', 'known', 'wrong', 'known']);
    // Each wrong one is checked: negatives are not kept either.
    assert.equal(world.made.length, 4);
    assert.equal(world.counted.entries, 1);
  });

  test('knows pairs: the password of one user is none of another', async () => {
    const world = new World();
    await world.ask('alice', 'apple');
    await world.ask('bob', 'banana');
    for (const [user, password] of [
      ['bob', 'apple'],
      ['alice', 'banana'],
      ['alic', 'eapple'],
      ['alicea', 'pple'],
    ] as const) {
      assert.equal(world.isKnown(user, password), false);
    }
    for (const digest of ['', 'alice', '0'.repeat(64)]) {
      assert.equal(world.database.isKnown(digest), false);
    }
  });

  test('asks one check for all who bring the same pair at the same time', async () => {
    const world = new World();
    world.gate = new Gate();
    const right = Array.from({ length: 20 }, () => world.ask('alice', 'apple'));
    const wrong = Array.from({ length: 20 }, () => world.ask('alice', 'wrong'));
    const other = world.ask('bob', 'apple');
    const changed = world.another({ users: usersOf(ALICE), realm: 'LAB' });
    const renewed = world.ask('alice', 'apple', changed);
    world.gate.open();
    assert.deepEqual(new Set(await Promise.all(right)), new Set(['ok']));
    assert.deepEqual(new Set(await Promise.all(wrong)), new Set(['wrong']));
    assert.deepEqual(await Promise.all([other, renewed]), ['wrong', 'ok']);
    const keys = world.made.map(({ key }) => key);
    assert.equal(new Set(keys.slice(0, 20)).size, 1);
    assert.equal(new Set(keys.slice(20, 40)).size, 1);
    assert.equal(new Set(keys).size, 4);
    // The pair entered the memory of each database once.
    assert.deepEqual([world.counted.entries, world.counted.full], [2, 0]);
  });

  test('asks on the account of the address that the pair came from', async () => {
    const world = new World();
    await world.database.verify(createBasicCaller('alice', 'wrong'), '192.0.2.9');
    assert.deepEqual(
      world.made.map(({ remoteAddress }) => remoteAddress),
      ['192.0.2.9'],
    );
  });

  test('asks no check for a pair that became known meanwhile', async () => {
    const world = new World();
    await world.ask('alice', 'apple');
    assert.equal(await world.database.verify(createBasicCaller('alice', 'apple'), ADDRESS), 'ok');
    assert.equal(world.made.length, 1);
  });

  test('knows nobody whose check was busy, and checks again', async () => {
    const world = new World();
    const facts = { side: 'internal', stage: 'identify' } as const;
    world.fixed = new ProxyError('caller-check-busy', 'too many', facts);
    assert.equal(await world.ask('alice', 'apple'), 'caller-check-busy');
    assert.equal(world.isKnown('alice', 'apple'), false);
    world.fixed = undefined;
    assert.equal(await world.ask('alice', 'apple'), 'ok');
  });

  test('gives each name of each realm its own turn', async () => {
    const world = new World();
    const other = world.another({ users: world.users, realm: 'OTHER' });
    await world.ask('alice', '1');
    await world.ask('alice', '2');
    await world.ask('bob', '1');
    await world.ask('alice', '1', other);
    const [first, second, ...others] = world.made.map(({ turn }) => turn);
    assert.equal(first, second);
    assert.equal(new Set([first, ...others]).size, 3);
  });

  test('keeps 10,000 pairs, those used last', async () => {
    const world = new World();
    world.fixed = true;
    const caller = createBasicCaller('alice', 'apple');
    const digests = Array.from({ length: 10_001 }, (_, i) => `digest ${i}`);
    for (const digest of digests.slice(0, 10_000)) {
      await world.database.verify({ ...caller, digest }, ADDRESS);
    }
    assert.equal(world.database.isKnown('digest 0'), true);
    await world.database.verify({ ...caller, digest: 'digest 10000' }, ADDRESS);
    assert.deepEqual(
      ['digest 0', 'digest 1', 'digest 2', 'digest 10000'].map((each) =>
        world.database.isKnown(each),
      ),
      [true, false, true, true],
    );
    assert.deepEqual([world.counted.entries, world.counted.full], [10_000, 1]);
  });

  test('counts look-ups, hits, entries and how they left', async () => {
    const world = new World();
    await world.ask('alice', 'apple');
    await world.ask('alice', 'apple');
    await world.ask('alice', 'wrong');
    await world.ask('bob', 'banana');
    world.clock.advance(300_000);
    await world.ask('alice', 'apple');
    world.database.retire();
    assert.deepEqual(world.counted, {
      requests: 5,
      hits: 1,
      entries: 0,
      full: 0,
      expired: 1,
      changed: 2,
    });
  });

  test('makes nobody known by a clock that is no number', async () => {
    const world = new World();
    await world.ask('alice', 'apple');
    world.clock.now = () => Number.NaN;
    assert.equal(world.isKnown('alice', 'apple'), false);
  });

  test('shows no password, hash or digest to whoever prints it (R46)', async () => {
    const world = new World();
    await world.ask('alice', 'apple');
    const printed = inspect(world.database, { depth: 9, showHidden: true });
    const { digest } = createBasicCaller('alice', 'apple');
    for (const secret of ['apple', 'apr1', '$2y$', digest]) {
      assert.ok(!printed.includes(secret), secret);
    }
  });
});

describe('a user who is not in the file', () => {
  test('costs a check of a kind and cost that the file has, always the same', async () => {
    const world = new World();
    for (const name of ['eve', 'eve', 'mallory', 'mallory']) await world.ask(name, 'apple');
    const costs = world.made.map(({ hash }) => `${hash.kind} ${hash.cost}`);
    assert.equal(costs.length, 4);
    assert.equal(costs[0], costs[1]);
    assert.equal(costs[2], costs[3]);
    for (const cost of costs) assert.ok(['apr1 1000', 'bcrypt 4'].includes(cost), cost);
  });

  test('meets the costs of the file as often as its users do', async () => {
    const world = new World();
    for (let i = 0; i < 200; i += 1) await world.ask(`nobody ${i}`, 'x');
    const quick = world.made.filter(({ hash }) => hash.kind === 'apr1').length;
    // Half of 200; the odds against a value outside are below one in a million.
    assert.ok(quick > 60 && quick < 140, String(quick));
  });

  test('is wrong with any password, and even if the check said right', async () => {
    const world = new World();
    world.fixed = true;
    assert.equal(await world.ask('eve', 'x'), 'wrong');
    assert.equal(world.isKnown('eve', 'x'), false);
    assert.equal(await world.ask('alice', 'x'), 'ok');
  });
});

describe('a changed user file', () => {
  test('is another database, which knows nobody', async () => {
    const world = new World();
    await world.ask('alice', 'apple');
    const users = usersOf(ALICE);
    const next = world.another({ users, realm: 'LAB' });
    world.database.retire();
    assert.equal(world.isKnown('alice', 'apple', next), false);
    assert.equal(world.isKnown('alice', 'apple'), false);
    assert.equal(await world.ask('alice', 'apple', next), 'ok');
    assert.equal(await world.ask('bob', 'banana', next), 'wrong');
  });

  test('makes nobody known by a check that the old one began', async () => {
    const world = new World();
    world.gate = new Gate();
    const asked = world.ask('alice', 'apple');
    world.database.retire();
    world.gate.open();
    assert.equal(await asked, 'ok');
    assert.equal(world.isKnown('alice', 'apple'), false);
    assert.equal(world.counted.entries, 0);
  });

  test('changes nothing in a database that was made of the map before', async () => {
    const map = new Map(usersOf(ALICE, BOB));
    const world = new World(map);
    map.delete('alice');
    assert.equal(await world.ask('alice', 'apple'), 'ok');
  });

  test('is told from an unchanged one by users, hashes and realm', () => {
    const { database, users } = new World();
    const realm = 'LAB';
    assert.equal(database.sameAs({ users, realm }), true);
    assert.equal(database.sameAs({ users: usersOf('# a', ALICE, BOB), realm }), true);
    const others: UserDatabaseSettings[] = [
      { users, realm: 'lab' },
      { users: usersOf(ALICE), realm },
      { users: usersOf(ALICE, BOB, BOB.replace('bob', 'rob')), realm },
      { users: usersOf(ALICE.replace('alice', 'Alice'), BOB), realm },
      { users: usersOf(ALICE, BOB.replace('$2y$', '$2b$')), realm },
      { users: usersOf(`bob:${ALICE.slice(6)}`, `alice:${BOB.slice(4)}`), realm },
    ];
    for (const settings of others) assert.equal(database.sameAs(settings), false);
  });
});
