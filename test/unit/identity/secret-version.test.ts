import assert from 'node:assert/strict';
import { test } from 'node:test';
import { inspect } from 'node:util';

import {
  callerSecret,
  generationOf,
  type SecretVersion,
  SecretVersions,
} from '../../../src/identity/secret-version.ts';
import { Secret } from '../../../src/identity/secret.ts';

const text = (versions: SecretVersions, content: string): SecretVersion =>
  versions.secret(new Secret(content)).version;

test('R4 equal content has the same version, other content another one', () => {
  const versions = new SecretVersions();
  const bytes = (fill: number): SecretVersion =>
    versions.secret(new Secret(Buffer.alloc(16, fill))).version;
  const all = [bytes(1), bytes(2), text(versions, 'a'), text(versions, 'A'), text(versions, '')];
  assert.equal(new Set(all).size, all.length);
  assert.deepEqual([bytes(1), bytes(2), text(versions, 'a')], all.slice(0, 3));
});

test('R6 R9 unpaired surrogates and what a version is of keep versions apart', () => {
  const versions = new SecretVersions();
  const all = [
    text(versions, '\ud800'),
    text(versions, '\ufffd'),
    versions.version('keytab', Buffer.from('a')),
    versions.version('ccache', Buffer.from('a')),
    versions.secret(new Secret(Buffer.from('a'))).version,
  ];
  assert.equal(new Set(all).size, all.length);
});

test('R15 the number of a version grows when the content changes, and comes back with it', () => {
  const versions = new SecretVersions();
  const numbers = ['a', 'b', 'a', 'c'].map((content) => generationOf(text(versions, content)));
  assert.deepEqual(numbers, [1, 2, 1, 3]);
});

test('versions of two books are never equal, though their numbers are', () => {
  const [one, other] = [new SecretVersions(), new SecretVersions()].map((book) => text(book, 'a'));
  assert.ok(one !== undefined && other !== undefined);
  assert.notEqual(one, other);
  assert.equal(generationOf(one), generationOf(other));
});

test('R9 a caller is told by mechanism, name and password in full width', () => {
  const of = (name: string, password: string, mechanism: 'ntlm' | 'kerberos' = 'ntlm'): string =>
    callerSecret(mechanism, name, new Secret(password)).version;
  const all = [of('a', 'bc'), of('ab', 'c'), of('a', 'BC'), of('a', 'bc', 'kerberos'), of('a', '')];
  assert.equal(new Set(all).size, all.length);
  assert.equal(of('a', 'bc'), all[0]);
  for (const version of all) assert.match(version, /^d[0-9a-f]{64}$/);
});

test("the number of a caller's version is a safe integer from the digest", () => {
  const { version } = callerSecret('ntlm', 'a', new Secret('b'));
  const number = generationOf(version);
  assert.ok(Number.isSafeInteger(number) && number > 0);
  assert.equal(number.toString(16).padStart(12, '0'), version.slice(1, 13));
});

test('a secret and its version cannot be parted', () => {
  const secret = new SecretVersions().secret(new Secret('a'));
  const other = new SecretVersions().secret(new Secret('b'));
  assert.throws(() => Object.assign(secret, { version: other.version }), TypeError);
  const derived = secret.derive((value) => value.length);
  assert.deepEqual([derived.reveal(), derived.version], [1, secret.version]);
});

test('R46 a version shows nothing of its secret, and the book keeps none', () => {
  const versions = new SecretVersions();
  const secret = versions.secret(new Secret('canary-of-a-secret'));
  const caller = callerSecret('ntlm', 'alice', new Secret('canary-of-a-secret'));
  const shown = [secret, caller, versions].map((one) => inspect(one, { showHidden: true }));
  shown.push(JSON.stringify({ secret, caller }), secret.version, caller.version, String(caller));
  assert.ok(!shown.some((line) => line.includes('canary')), shown.join('\n'));
});
