import assert from 'node:assert/strict';
import { test } from 'node:test';

import { createNtlmIdentity } from '../../../src/identity/identity.ts';
import type { NtlmIdentity } from '../../../src/identity/identity.ts';
import { Secret } from '../../../src/identity/secret.ts';

function named(username: string): NtlmIdentity {
  const ntHash = new Secret(Buffer.alloc(16, 1));
  return createNtlmIdentity({ principal: 'p', username, workstation: 'W', ntHash, generation: 1 });
}

test('a user name is split at its first backslash and never at an at sign', () => {
  const names = ['CORP\\alice', 'CORP\\a\\b', 'alice@corp.example', 'alice', 'CORP\\', '\\alice'];
  assert.deepEqual(
    names.map((name) => [named(name).domain, named(name).user]),
    [
      ['CORP', 'alice'],
      ['CORP', 'a\\b'],
      ['', 'alice@corp.example'],
      ['', 'alice'],
      ['CORP', ''],
      ['', 'alice'],
    ],
  );
});

test('an account of the server itself has an empty domain', () => {
  assert.deepEqual([named('.\\alice').domain, named('.\\alice').user], ['', 'alice']);
});

test('spellings of one account that differ in case are one account to the guard', () => {
  assert.equal(named('Corp\\Alice').account, named('CORP\\ALICE').account);
  assert.equal(named('Corp\\Alice').account, 'corp\\alice');
  assert.equal(named('Σίσυφος').account, named('ΣΊΣΥΦΟΣ').account);
  assert.notEqual(named('CORP\\alice').account, named('alice').account);
});

test('domain and user keep the case they were configured in', () => {
  assert.deepEqual([named('CoRp\\AliCe').domain, named('CoRp\\AliCe').user], ['CoRp', 'AliCe']);
});

test('an identity cannot be changed after it was made', () => {
  const identity = named('CORP\\alice') as { generation: number };
  assert.throws(() => {
    identity.generation = 2;
  }, TypeError);
});
