/** One password against one hash; the published vectors are in test/spec. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import {
  decoyOf,
  type PasswordHash,
  parsePasswordHash,
} from '../../../../src/identity/hash-form.ts';
import { isPasswordOf } from '../../../../src/inbound/htpasswd/password-hash.ts';

const parse = (text: string): PasswordHash => {
  const hash = parsePasswordHash(text);
  assert.ok(typeof hash !== 'string', String(hash));
  return hash;
};

/** Of the password `correct`, made by htpasswd, openssl passwd and crypt(). */
const HASHES: [kind: string, text: string][] = [
  ['bcrypt', '$2y$05$rfntzMCtZSjTH9La0EEIDu0rW/0GhJs47qRft6DEQGxxLl60Qt0ja'],
  ['SHA-256', '$5$iOCJHw5Snn3M.jAn$zu9MOcY7JFJQOcJEM6oEz272ZVFw7EWd4F2BbuTRDaA'],
  ['SHA-256 with rounds', '$5$rounds=1234$oddsaltodd$9q1IaWUOGYvTUYzibNw3Cpv2vmGrunhKY5uv6gQ39P.'],
  [
    'SHA-512',
    '$6$k42qHy2ilpOYl.Ww$P4q8kgswsEeHFx2s1ju0O7QD9NashgouC8FeVmboQbV.S9galN/SRh2y0mgOBjp81efOV3b3wyWJ3f6LVXjSd0',
  ],
  ['apr1', '$apr1$LkW/M6J6$S5ZhcVTJ.W4tbHfBapeQv1'],
];

/** Made by crypt() of 170 times `€` and an `a`: 511 bytes. */
const LONG_HASH =
  '$6$rounds=1000$saltsalt$xgI1bHiCtcWPKP/riUzlKXuNcwSoLBPSv3o99LpCEbBtisDz.Pg.Zw7DDcg/YISRux8qcNxXbHW7DFCE9UamL1';

describe('the check of a password', () => {
  for (const [kind, text] of HASHES) {
    test(`takes the right one and no other: ${kind}`, () => {
      const hash = parse(text);
      assert.equal(isPasswordOf('correct', hash), true);
      for (const other of ['', 'Correct', 'correct ', ' correct', 'correc', text]) {
        assert.equal(isPasswordOf(other, hash), false, other);
      }
    });

    test(`takes nothing for a decoy: ${kind}`, () => {
      for (const any of ['', 'correct', '.', '.'.repeat(53)]) {
        assert.equal(isPasswordOf(any, decoyOf(parse(text))), false, any);
      }
    });
  }

  test('takes 511 bytes of UTF-8, and no password that is longer', () => {
    assert.equal(isPasswordOf(`${'€'.repeat(170)}a`, parse(LONG_HASH)), true);
    // bcrypt itself would look at the same 72 bytes.
    const bcrypt = parse('$2a$05$abcdefghijklmnopqrstuu5s2v8.iXieOjg/.AySBTTZIIVFJeBui');
    const first = '0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789';
    assert.equal(isPasswordOf(first.padEnd(511, 'x'), bcrypt), true);
    assert.equal(isPasswordOf(first.padEnd(512, 'x'), bcrypt), false);
  });

  test('does not mind bits of a bcrypt salt that mean nothing', () => {
    // The 22nd letter of the salt has two bits; `v` has those of `u`, and more.
    const hash = parse('$2a$05$abcdefghijklmnopqrstuv5s2v8.iXieOjg/.AySBTTZIIVFJeBui');
    const password = '0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789';
    assert.equal(isPasswordOf(password, hash), true);
    assert.equal(isPasswordOf('other', hash), false);
  });
});
