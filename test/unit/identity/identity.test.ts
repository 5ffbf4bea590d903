import assert from 'node:assert/strict';
import { test } from 'node:test';

import {
  createCombinedIdentity,
  createKerberosIdentity,
  createNtlmIdentity,
  isNamed,
  NO_IDENTITY,
} from '../../../src/identity/identity.ts';
import type { NtlmIdentity } from '../../../src/identity/identity.ts';
import { credentialVersion, ntHashSecret } from '../../support/versioned-secrets.ts';

function named(username: string): NtlmIdentity {
  const ntHash = ntHashSecret();
  return createNtlmIdentity({ principal: 'p', username, workstation: 'W', ntHash });
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

function ticket(name: string | undefined): ReturnType<typeof createKerberosIdentity> {
  const source = name === undefined ? 'ambient' : 'password';
  return createKerberosIdentity({
    principal: 'p',
    name,
    source,
    credential: '',
    version: credentialVersion(),
  });
}

test('a Kerberos name keeps its case and is one account to the guard in every case', () => {
  assert.equal(ticket('Alice@CORP.EXAMPLE').name, 'Alice@CORP.EXAMPLE');
  assert.equal(ticket('Alice@CORP.EXAMPLE').account, ticket('alice@corp.example').account);
  assert.ok(Object.isFrozen(ticket('alice@CORP.EXAMPLE')));
});

test('a combined identity counts lockouts for its NTLM account', () => {
  const both = createCombinedIdentity(ticket('alice@CORP.EXAMPLE'), named('CORP\\Alice'));
  assert.equal(both.account, 'corp\\alice');
  assert.ok(Object.isFrozen(both));
});

test('R5 only the ambient identity without a name is nameless', () => {
  assert.equal(isNamed(ticket(undefined)), false);
  assert.equal(isNamed(ticket('alice@CORP.EXAMPLE')), true);
  assert.equal(isNamed(NO_IDENTITY), true);
});
