/** Credential caches against bytes that were put together by hand. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { decodeCredentialCache } from '../../../src/identity/credential-cache.ts';
import { realmOf } from '../../../src/identity/principal-name.ts';
import { testCache } from '../../support/kerberos-files.ts';

const ALICE = 'alice@LAB.TEST';
const TGT = { server: 'krbtgt/LAB.TEST@LAB.TEST', end: 2_000_000_000 };
const HTTP = { server: 'HTTP/web@LAB.TEST', end: 1_900_000_000 };
const SETTING = { server: 'krb5_ccache_conf_data/refresh_time@X-CACHECONF:', end: 3600 };

test('the owner, the end of the ticket-granting ticket and the number of tickets are read', () => {
  assert.deepEqual(decodeCredentialCache(testCache(ALICE, SETTING, TGT, HTTP)), {
    principal: ALICE,
    endsAt: 2_000_000_000_000,
    tickets: 2,
  });
});

test('the last ticket-granting ticket of the own realm counts, not one of another realm', () => {
  const renewed = { ...TGT, end: 2_100_000_000 };
  const other = { server: 'krbtgt/OTHER.TEST@LAB.TEST', end: 2_200_000_000 };
  const contents = decodeCredentialCache(testCache(ALICE, TGT, renewed, other));
  assert.equal(contents?.endsAt, 2_100_000_000_000);
});

test('a cache that was only set up has no tickets', () => {
  assert.deepEqual(decodeCredentialCache(testCache(ALICE, SETTING)), {
    principal: ALICE,
    endsAt: undefined,
    tickets: 0,
  });
});

test('an empty file, another format and every shortening are refused', () => {
  const file = testCache(ALICE, TGT);
  const setUp = testCache(ALICE).length;
  for (let length = 0; length < file.length; length += 1) {
    const expected = length === setUp;
    const contents = decodeCredentialCache(file.subarray(0, length));
    assert.equal(contents !== undefined, expected, `${length} bytes`);
  }
  for (const start of [
    [5, 1],
    [5, 2],
    [4, 5],
    [0x7b, 0x7d],
  ]) {
    const other = Buffer.concat([Buffer.from(start), file.subarray(2)]);
    assert.equal(decodeCredentialCache(other), undefined);
  }
});

test('the realm of a name is what stands behind its last bare at sign', () => {
  assert.equal(realmOf('alice@LAB.TEST'), 'LAB.TEST');
  assert.equal(realmOf('a\\@b@LAB.TEST'), 'LAB.TEST');
  assert.equal(realmOf('a\\@b'), undefined);
  assert.equal(realmOf('alice'), undefined);
});
