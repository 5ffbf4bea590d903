/** What a caller's name and password become, and how long that is kept. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { inspect } from 'node:util';
import * as fc from 'fast-check';
import { identityDigest } from '../../../src/identity/digest.ts';
import type { LoginIdentity } from '../../../src/identity/identity.ts';
import { Secret } from '../../../src/identity/secret.ts';
import { createBasicCaller } from '../../../src/inbound/basic-credentials.ts';
import { CallerIdentities, kerberosName } from '../../../src/proxy/caller-identities.ts';
import { FakeClock } from '../../support/fake-clock.ts';

const REALMS = { default: 'LAB.TEST', known: ['LAB.TEST', 'Other.Test', 'other.test'] };

class World {
  readonly clock = new FakeClock();
  readonly identities: CallerIdentities;

  constructor(max = 100, realms: typeof REALMS = REALMS) {
    this.identities = new CallerIdentities({ deadlines: this.clock.deadlines, max, realms });
  }

  of(user: string, password = 'secret', principal = 'caller'): LoginIdentity {
    return this.identities.of(principal, createBasicCaller(user, password));
  }

  digest(user: string, password?: string, principal?: string): string {
    return identityDigest(this.of(user, password, principal));
  }

  /** Whether a password is kept for the Kerberos part. */
  keeps(identity: LoginIdentity): boolean {
    assert.ok(identity.kind === 'combined');
    return this.identities.passwordOf(identity.kerberos) !== undefined;
  }
}

describe('a name', () => {
  for (const [user, name] of [
    ['alice', 'alice@LAB.TEST'],
    ['alice@LAB.TEST', 'alice@LAB.TEST'],
    ['alice@lab.test', 'alice@LAB.TEST'],
    ['Alice@Other.Test', 'Alice@Other.Test'],
    ['alice@other.test', 'alice@other.test'],
    ['LAB\\alice', undefined],
    ['alice@elsewhere.test', undefined],
    ['alice@LAB.TEST.', undefined],
    ['a@b@LAB.TEST', undefined],
    ['@LAB.TEST', undefined],
    ['host/web', undefined],
    ['alice/admin@LAB.TEST', undefined],
    ['a lice', undefined],
    ['-c', '-c@LAB.TEST'],
  ] as const) {
    test(`${user} is ${name ?? 'none of Kerberos'}`, () => {
      assert.equal(kerberosName(user, REALMS), name);
    });
  }

  test('has no default realm where the machine has none', () => {
    assert.equal(kerberosName('alice', { default: undefined, known: ['LAB.TEST'] }), undefined);
  });
});

describe('the identity of a caller', () => {
  test('is Kerberos and then NTLM, with the name as sent; with a domain NTLM alone', () => {
    const world = new World();
    const upn = world.of('alice@lab.test');
    assert.ok(upn.kind === 'combined');
    assert.equal(upn.kerberos.name, 'alice@LAB.TEST');
    assert.deepEqual([upn.ntlm.domain, upn.ntlm.user], ['', 'alice@lab.test']);
    const domain = world.of('LAB\\alice');
    assert.ok(domain.kind === 'ntlm');
    assert.deepEqual([domain.domain, domain.user], ['LAB', 'alice']);
  });

  test('R4 differs with the password, the name and the entry, and is equal when made again', () => {
    const world = new World();
    const digests = [
      world.digest('alice', 'a'),
      world.digest('alice', 'A'),
      world.digest('Alice', 'a'),
      world.digest('LAB\\alice', 'a'),
      world.digest('alice@LAB.TEST', 'a'),
      world.digest('alice', 'a', 'other'),
    ];
    assert.equal(new Set(digests).size, digests.length);
    assert.equal(new World().digest('alice', 'a'), digests[0]);
  });

  test('R6 R9 differs for any two pairs of name and password', () => {
    const world = new World(10_000);
    const text = fc.string({ minLength: 1, maxLength: 6 });
    fc.assert(
      fc.property(text, text, text, text, (user, password, other, secret) => {
        const same = user === other && password === secret;
        assert.equal(world.digest(user, password) === world.digest(other, secret), same);
      }),
    );
  });

  test('R4 has a Kerberos part that differs with the password, whatever NTLM does', () => {
    const world = new World();
    const parts = ['a', 'A', ''].map((password) => world.of('alice', password));
    const kerberos = parts.map((one) => (one.kind === 'combined' ? one.kerberos : undefined));
    for (const field of ['credential', 'generation'] as const) {
      assert.equal(new Set(kerberos.map((one) => one?.[field])).size, 3, field);
    }
    const upn = world.of('alice@lab.test', 'a');
    assert.ok(upn.kind === 'combined');
    assert.equal(upn.kerberos.credential, kerberos[0]?.credential, 'one proof for both spellings');
  });

  test('names one account for spellings that a directory does not tell apart', () => {
    const world = new World();
    // The last ones have characters that no comparison of a directory gives any weight.
    const unseen = ['al\u200bice', '\u2060alice', 'ali\u00adce', 'alice\u{e0001}', 'al\uffffice'];
    const accounts = ['alice', 'ALICE', 'alice@lab.test', 'álice', 'ａｌｉｃｅ', ...unseen].map(
      (user) => world.of(user).account,
    );
    assert.deepEqual(new Set(accounts), new Set(['alice@lab.test']));
    assert.equal(world.of(' LAB\\alice ').account, world.of('lab\\Alice').account);
    assert.equal(world.of('LAB \\ alice').account, world.of('lab\\alice').account);
    assert.notEqual(world.of('bob').account, 'alice@lab.test');
  });

  test('R46 shows nothing of the password', () => {
    const world = new World();
    const identity = world.of('alice', 'CANARY-secret');
    const texts = [inspect(identity, { depth: 9 }), JSON.stringify(identity)];
    texts.push(inspect(world.identities, { depth: 9, showHidden: true }), identityDigest(identity));
    assert.ok(!texts.some((text) => text.includes('CANARY')));
  });
});

describe('the cache of identities', () => {
  test('gives a connection the same object, and others an equal one', () => {
    const { identities } = new World();
    const one = createBasicCaller('alice', 'x');
    assert.equal(identities.of('caller', one), identities.of('caller', one));
    assert.equal(
      identities.of('caller', one),
      identities.of('caller', createBasicCaller('alice', 'x')),
    );
    assert.notEqual(identities.of('other', one), identities.of('caller', one));
  });

  test('R46 finds who is known by the digest of the credentials, without a look at the password', () => {
    const { identities } = new World();
    const first = createBasicCaller('alice', 'x');
    const identity = identities.of('caller', first);
    const password = new Secret('x');
    Object.defineProperty(password, 'reveal', { value: () => assert.fail('it was looked at') });
    const again = Object.freeze({ ...first, password });
    assert.equal(identities.of('caller', again), identity);
    assert.throws(() => identities.of('other', again), { code: 'ERR_ASSERTION' });
  });

  test('I12 is bounded, and a password goes with the last who holds it', () => {
    const world = new World(10);
    const alice = world.of('alice');
    const again = world.of('alice@lab.test');
    assert.ok(world.keeps(alice) && world.keeps(again));
    for (let i = 0; i < 9; i += 1) world.of(`user-${i}`);
    assert.equal(world.identities.size, 10);
    assert.ok(world.keeps(alice), 'the other spelling holds it');
    world.of('user-9');
    assert.equal(world.keeps(alice), false);
  });

  test('forgets who is idle, with the password; use keeps it', () => {
    const world = new World();
    const idle = world.of('idle');
    const busy = createBasicCaller('busy', 'x');
    for (let minute = 0; minute < 30; minute += 1) {
      world.identities.of('caller', busy);
      world.clock.advance(60_000);
    }
    assert.equal(world.keeps(idle), false);
    assert.ok(world.keeps(world.identities.of('caller', busy)));
    assert.equal(world.identities.size, 1);
    world.clock.advance(11 * 60_000);
    assert.equal(world.identities.size, 0);
    assert.ok(world.keeps(world.identities.of('caller', busy)), 'a connection brings it again');
  });

  test('is made anew when realms change, and not when they are read again', () => {
    const world = new World();
    const one = world.of('alice');
    world.identities.reconfigure({ default: 'LAB.TEST', known: [...REALMS.known] });
    assert.equal(world.of('alice'), one);
    world.identities.reconfigure({ default: undefined, known: [] });
    assert.equal(world.of('alice').kind, 'ntlm');
    assert.equal(world.keeps(one), false);
  });
});
