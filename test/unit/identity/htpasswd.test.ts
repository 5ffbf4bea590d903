/** User files: what is taken, and what is wrong with the others, by line and without their content. */
import assert from 'node:assert/strict';
import { inspect } from 'node:util';
import { describe, test } from 'node:test';
import { decoyOf, type PasswordHash, parsePasswordHash } from '../../../src/identity/hash-form.ts';
import { parseHtpasswd } from '../../../src/identity/htpasswd.ts';
import { decodeBasic } from '../../../src/inbound/basic-credentials.ts';

const BCRYPT = '$2y$10$abcdefghijklmnopqrstuu5s2v8.iXieOjg/.AySBTTZIIVFJeBui';
const SHA256 = '$5$saltstring$5B8vYYiY.CVt1RlTTf8KbXBH3hsxY/GNooZaBBGWEc5';
const SHA512 =
  '$6$rounds=1400$anotherlongsalts$POfYwTEok97VWcjxIiSOjiykti.o/pQs.wPvMxQ6Fm7I6IoYN3CmLs66x9t0oSwbtEW7o7UmJEiDwGqd8p4ur1';
const APR1 = '$apr1$r31.....$HqJZimcKQFAMYayBlzkrA/';
const KINDS = 'bcrypt ($2a$, $2b$, $2y$), SHA-crypt ($5$, $6$) and apr1 ($apr1$)';

function usersOf(text: string): ReadonlyMap<string, PasswordHash> {
  const reading = parseHtpasswd(text);
  assert.ok('users' in reading, JSON.stringify(reading));
  return reading.users;
}

function faultOf(text: string): string | undefined {
  const reading = parseHtpasswd(text);
  return 'fault' in reading ? reading.fault : undefined;
}

const costs = (text: string): string[] =>
  [...usersOf(text).values()].map(({ kind, cost }) => `${kind} ${cost}`);

describe('a user file', () => {
  test('names users with hashes of four kinds, each with what a check costs', () => {
    const text = `a:${BCRYPT}\nb:${SHA256}\nc:${SHA512}\nd:${APR1}\n`;
    assert.deepEqual([...usersOf(text).keys()], ['a', 'b', 'c', 'd']);
    assert.deepEqual(costs(text), [
      'bcrypt 10',
      'sha256-crypt 5000',
      'sha512-crypt 1400',
      'apr1 1000',
    ]);
  });

  test('may have comments, blank lines, CR LF, further fields and no line end at its end', () => {
    const text = `# a: comment\r\n\r\n   \t\nJosé:${APR1}:a comment:more\r\n#\nCORP\\me:${SHA256}`;
    assert.deepEqual([...usersOf(text).keys()], ['José', 'CORP\\me']);
  });

  test('may ask for any cost between the bounds', () => {
    for (const cost of ['04', '15']) {
      assert.equal(usersOf(`a:${BCRYPT.replace('10', cost)}`).get('a')?.cost, Number(cost));
    }
    for (const rounds of ['1000', '1000000']) {
      const hash = SHA512.replace('1400', rounds);
      assert.equal(usersOf(`a:${hash}`).get('a')?.cost, Number(rounds));
    }
  });

  test('prints as names and [secret]', () => {
    const users = usersOf(`alice:${BCRYPT}`);
    const hash = users.get('alice');
    const printed = [inspect(users), JSON.stringify([...users]), String(hash), `${hash?.toJSON()}`];
    for (const text of printed) {
      assert.match(text, /\[secret\]/);
      assert.doesNotMatch(text, /5s2v8/);
    }
  });

  for (const [what, text, fault] of [
    ['empty', '', 'the file names no user'],
    ['of comments', '# a\n\n', 'the file names no user'],
    ['with a line that is no entry', `a:${APR1}\nalice`, 'line 2: no colon; a line is user:hash'],
    ['with an empty user', `# x\n:${APR1}`, 'line 2: the user name is empty'],
    ['with an empty hash', 'alice:', 'line 1: the user has no hash'],
    [
      'with a user twice',
      `a:${APR1}\n\nb:${APR1}\na:${SHA256}`,
      'line 4: the user stands in line 1 already',
    ],
    [
      'with a cost that takes too long',
      `a:${BCRYPT.replace('10', '16')}`,
      'line 1: the bcrypt cost is above 15: one check would hold up all others for many seconds or for minutes',
    ],
    [
      'with a cost below bcrypt itself',
      `a:${BCRYPT.replace('10', '03')}`,
      'line 1: the bcrypt cost is below 4',
    ],
    [
      'with rounds that take too long',
      `a:${SHA512.replace('1400', '1000001')}`,
      'line 1: the SHA-crypt rounds are above 1000000: one check would hold up all others for many seconds or for minutes',
    ],
    [
      'with rounds below those of SHA-crypt',
      `a:${SHA512.replace('1400', '999')}`,
      'line 1: the SHA-crypt rounds are below 1000',
    ],
  ] as const) {
    test(`${what} is a fault`, () => assert.equal(faultOf(text), fault));
  }

  for (const [what, hash] of [
    ['plain text', 'Secret-Canary-1'],
    ['{SHA}', '{SHA}VBPuJHI7uixaa6LQGWx4s+5GKNE='],
    ['DES', 'rqXexS6ZhobKA'],
    ['MD5-crypt', '$1$saltsalt$2vnaRpHa6Jxjz5n83ok8Z0'],
    ['the defective bcrypt of 2011', BCRYPT.replace('$2y$', '$2x$')],
    ['the bcrypt without a letter', BCRYPT.replace('$2y$', '$2$')],
    ['argon2', '$argon2id$v=19$m=65536,t=3,p=4$c29tZXNhbHQ$RdescudvJCsgt3ub+b27dQ'],
    ['yescrypt', '$y$j9T$F5Jx5fExrKuPp53xLKQ..1$X3DX6M94c7o.9agCG9G317fhZg9SqC.5i5rd.RhAtQ7'],
  ] as const) {
    test(`with ${what} is a fault that names the accepted kinds`, () => {
      const fault = `the hash is of a kind that is not accepted; accepted are ${KINDS}`;
      assert.equal(faultOf(`a:${APR1}\nb:${hash}`), `line 2: ${fault}`);
    });
  }

  test('has names as callers can send them, and no others', () => {
    const plain = ['a', '\ufeff2', 'CORP\\me', 'me@corp', 'a b', 'ß€😀', '#', 'u'.repeat(256)];
    const bad = ['', '\\', 'CORP\\', 'a\tb', 'a\0', 'a\x7f', 'a\x85', 'u'.repeat(257)];
    for (const name of [...plain, ...bad]) {
      const sent = Buffer.from(`Basic ${Buffer.from(`${name}:x`).toString('base64')}`);
      const isCaller = decodeBasic(sent, 0, sent.length) !== undefined;
      assert.equal(isCaller, plain.includes(name), JSON.stringify(name));
      const isComment = name.startsWith('#');
      const fault = faultOf(`first:${APR1}\n${name}:${APR1}\n`);
      assert.equal(fault === undefined, isCaller, JSON.stringify(name));
      if (isCaller) assert.equal(usersOf(`first:${APR1}\n${name}:${APR1}`).has(name), !isComment);
    }
  });
});

describe('a decoy', () => {
  test('is a well-formed hash of the same kind and cost, and holds nothing of its model', () => {
    for (const text of [BCRYPT, SHA256, SHA512, APR1]) {
      const model = parsePasswordHash(text);
      assert.ok(typeof model !== 'string');
      const decoy = decoyOf(model).reveal();
      const again = parsePasswordHash(decoy);
      assert.ok(typeof again !== 'string', String(again));
      assert.deepEqual([again.kind, again.cost], [model.kind, model.cost]);
      const secrets = text.split('$').filter((part) => part.length >= 8 && !part.includes('='));
      assert.ok(secrets.length > 0);
      for (const part of secrets) assert.ok(!decoy.includes(part), part);
    }
  });
});
