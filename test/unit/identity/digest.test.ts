import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { createHash, createHmac } from 'node:crypto';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { inspect } from 'node:util';

import { identityDigest } from '../../../src/identity/digest.ts';
import {
  createKerberosIdentity,
  NO_IDENTITY,
  ownIdentity,
} from '../../../src/identity/identity.ts';
import type { NtlmIdentity } from '../../../src/identity/identity.ts';
import { Secret } from '../../../src/identity/secret.ts';
import { credentialVersion, ntHashSecret } from '../../support/versioned-secrets.ts';
import { everyVariant, newAccount, newTicket } from './every-field.ts';

const changed = (changes: object): NtlmIdentity => ownIdentity({ ...newAccount(), ...changes });

test('R4 changing any one field of an identity of any kind changes its digest', () => {
  const digests = new Map([['none', identityDigest(NO_IDENTITY)]]);
  for (const { name, thawed, own } of everyVariant()) {
    const digest = identityDigest(thawed);
    for (const [other, taken] of digests) assert.notEqual(digest, taken, `${name} and ${other}`);
    digests.set(name, digest);
    if (own !== undefined) assert.equal(identityDigest(own), digest, name);
  }
  // 3 kinds with 6, 5 and 3 fields beside the kind, and nobody.
  assert.equal(digests.size, 18);
});

test('a keytab is told by the version of its keys, not by its place', () => {
  const at = (credential: string, keys = 'a'): string => {
    const version = credentialVersion(keys);
    const fields = { ...newTicket(), source: 'keytab', credential, version } as const;
    return identityDigest(createKerberosIdentity(fields));
  };
  assert.equal(at('/etc/svc.keytab'), at('/run/svc.keytab'));
  assert.notEqual(at('/etc/svc.keytab'), at('/etc/svc.keytab', 'b'));
});

test('R5 the ambient identity is neither the absent one nor one with an empty name', () => {
  const version = credentialVersion();
  const ambient = { principal: 'me', source: 'ambient', credential: '', version } as const;
  const nameless = createKerberosIdentity({ ...ambient, name: undefined });
  const named = createKerberosIdentity({ ...ambient, name: '' });
  const dash = createKerberosIdentity({ ...ambient, name: '-' });
  const digests = [NO_IDENTITY, nameless, named, dash].map(identityDigest);
  assert.equal(new Set(digests).size, digests.length);
});

test('R4 equal fields in another object give the same digest', () => {
  assert.equal(identityDigest(newAccount()), identityDigest(newAccount()));
});

test('R5 an identity of empty names is not the absent identity', () => {
  const empty = changed({ principal: '', domain: '', user: '', workstation: '' });
  assert.notEqual(identityDigest(empty), identityDigest(NO_IDENTITY));
});

test('R5 an identity of a kind without an encoding has no digest, least of all the absent one', () => {
  const ambient = { kind: 'ambient' } as unknown as NtlmIdentity;
  assert.throws(() => identityDigest(ambient), { code: 'internal' });
});

test('R6 values that concatenate equally have different digests', () => {
  const pairs: readonly (readonly [object, object])[] = [
    [
      { domain: 'AB', user: 'C' },
      { domain: 'A', user: 'BC' },
    ],
    [
      { domain: '', user: 'AB' },
      { domain: 'AB', user: '' },
    ],
    [
      { principal: 'a\0b', domain: 'c' },
      { principal: 'a', domain: 'b\0c' },
    ],
    [
      { user: '1', workstation: '11' },
      { user: '11', workstation: '1' },
    ],
    [
      { domain: 'x', user: 'zusery' },
      { domain: 'xuserz', user: 'y' },
    ],
    [{ user: 'svc' }, { user: 'SVC' }],
    [{ user: 'svc' }, { user: 'svc\0' }],
    [
      { domain: '', user: '3:abc' },
      { domain: '3:abc', user: '' },
    ],
    // Lengths that take more than one character, with and without the mark that says so.
    [
      { user: '\0'.repeat(0x10000), workstation: '' },
      { user: '', workstation: '\0'.repeat(0x10000) },
    ],
    [
      { user: `65536:${'x'.repeat(0xffff - 6)}`, workstation: 'wwwwww\x03vvv' },
      { user: `${'x'.repeat(0xffff - 6)}\nwwwwww`, workstation: 'vvv' },
    ],
    [{ user: 'x'.repeat(0xfffe) }, { user: 'x'.repeat(0xffff) }],
    // Unpaired surrogates: UTF-8 makes U+FFFD of both.
    [{ user: '\ud800' }, { user: '\ud801' }],
    [{ user: '\ud800' }, { user: '\ufffd' }],
  ];
  for (const [a, b] of pairs) {
    const shown = inspect([a, b], { maxStringLength: 20 });
    assert.notEqual(identityDigest(changed(a)), identityDigest(changed(b)), shown);
  }
});

test('R9 a digest has the full width of its function', () => {
  assert.match(identityDigest(newAccount()), /^[0-9a-f]{64}$/);
  assert.match(identityDigest(NO_IDENTITY), /^[0-9a-f]{64}$/);
});

test('R46 neither a secret nor a bare digest of it shows in a digest or a fingerprint', () => {
  const bytes = Buffer.from('canary secret 16');
  const secret = ntHashSecret(bytes);
  const identity = changed({ ntHash: secret });
  const outputs = [
    identityDigest(identity),
    secret.fingerprint(),
    inspect(identity, { depth: 9, showHidden: true }),
    JSON.stringify(identity),
    String(secret),
    JSON.stringify({ secret }),
  ].join('\n');
  const tellTales = [
    bytes.toString('latin1'),
    bytes.toString('hex'),
    bytes.toString('base64'),
    ...['md5', 'sha1', 'sha256'].map((name) => createHash(name).update(bytes).digest('hex')),
    createHmac('sha256', '').update(bytes).digest('hex'),
  ];
  for (const tellTale of tellTales) assert.ok(!outputs.includes(tellTale), tellTale);
  assert.ok(outputs.includes('[secret]'));
  assert.deepEqual(secret.reveal(), bytes);
});

test('R47 two processes have different digests of one identity', () => {
  const folder = fileURLToPath(new URL('../../../src/identity/', import.meta.url));
  const script = `
    const { identityDigest } = await import(${JSON.stringify(`${folder}digest.ts`)});
    const { NO_IDENTITY } = await import(${JSON.stringify(`${folder}identity.ts`)});
    process.stdout.write(identityDigest(NO_IDENTITY));`;
  const run = (): string =>
    execFileSync(process.execPath, ['--input-type=module', '--eval', script], { encoding: 'utf8' });
  const others = [run(), run()];
  assert.match(others[0] ?? '', /^[0-9a-f]{64}$/);
  assert.equal(new Set([...others, identityDigest(NO_IDENTITY)]).size, 3);
});

test('fingerprints tell contents apart and nothing else', () => {
  const of = (value: string): string => new Secret(value).fingerprint();
  assert.equal(of('a'), of('a'));
  assert.notEqual(of('a'), of('b'));
  assert.equal(
    new Secret(Buffer.alloc(16, 3)).fingerprint(),
    new Secret(Buffer.alloc(16, 3)).fingerprint(),
  );
});
