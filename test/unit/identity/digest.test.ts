import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { createHash, createHmac } from 'node:crypto';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { inspect } from 'node:util';

import {
  COMBINED_FIELDS,
  identityDigest,
  KERBEROS_FIELDS,
  NTLM_FIELDS,
} from '../../../src/identity/digest.ts';
import {
  createCombinedIdentity,
  createKerberosIdentity,
  createNtlmIdentity,
  NO_IDENTITY,
} from '../../../src/identity/identity.ts';
import type { Identity, NtlmIdentity } from '../../../src/identity/identity.ts';
import { Secret } from '../../../src/identity/secret.ts';

const BASE = createNtlmIdentity({
  principal: 'crm',
  username: 'CORP\\svc',
  workstation: 'WORKSTATION',
  ntHash: new Secret(Buffer.alloc(16, 1)),
  generation: 1,
});

/** One other value for each field but the kind, of which there is no other one with these fields. */
const CHANGED: Readonly<Record<Exclude<keyof typeof NTLM_FIELDS, 'kind'>, unknown>> = {
  principal: 'crm2',
  domain: 'CORP2',
  user: 'svc2',
  workstation: '',
  ntHash: new Secret(Buffer.alloc(16, 2)),
  password: new Secret('canary'),
  generation: 2,
};

const changed = (changes: object): NtlmIdentity => Object.freeze({ ...BASE, ...changes });

test('R4 changing any one field of an identity changes its digest', () => {
  // The type's own field list: a field that exists and is neither here nor derived fails.
  const fields = Object.keys(BASE).filter((field) => field !== 'account');
  assert.deepEqual(Object.keys(NTLM_FIELDS).sort(), fields.sort());
  const others = Object.entries(CHANGED).map(([field, value]) => {
    const other = identityDigest(changed({ [field]: value }));
    assert.notEqual(other, identityDigest(BASE), `${field} is not in the digest`);
    return other;
  });
  assert.equal(new Set(others).size, others.length);
});

const TICKET = createKerberosIdentity({
  principal: 'crm',
  name: 'svc@CORP.EXAMPLE',
  source: 'ccache',
  credential: '/run/svc.cc',
  generation: 1,
});
const BOTH = createCombinedIdentity(TICKET, BASE);

const CHANGED_TICKET: Readonly<Record<Exclude<keyof typeof KERBEROS_FIELDS, 'kind'>, unknown>> = {
  principal: 'crm2',
  name: 'svc@OTHER.EXAMPLE',
  source: 'keytab',
  credential: '/run/other.cc',
  generation: 2,
};
const CHANGED_BOTH: Readonly<Record<Exclude<keyof typeof COMBINED_FIELDS, 'kind'>, unknown>> = {
  principal: 'crm2',
  kerberos: Object.freeze({ ...TICKET, generation: 2 }),
  ntlm: Object.freeze({ ...BASE, generation: 2 }),
  generation: 2,
};

test('R4 changing any one field of a Kerberos or combined identity changes its digest', () => {
  const rows: readonly (readonly [Identity, object, object])[] = [
    [TICKET, KERBEROS_FIELDS, CHANGED_TICKET],
    [BOTH, COMBINED_FIELDS, CHANGED_BOTH],
  ];
  const digests = [identityDigest(TICKET), identityDigest(BOTH), identityDigest(BASE)];
  for (const [base, encoders, changes] of rows) {
    const fields = Object.keys(base).filter((field) => field !== 'account');
    assert.deepEqual(Object.keys(encoders).sort(), fields.sort());
    for (const [field, value] of Object.entries(changes)) {
      const other: Identity = Object.freeze({ ...base, [field]: value });
      digests.push(identityDigest(other));
    }
  }
  assert.equal(new Set(digests).size, digests.length);
});

test('a keytab is told by the version of its keys, not by its place', () => {
  const at = (credential: string, generation = 1): string =>
    identityDigest(createKerberosIdentity({ ...TICKET, source: 'keytab', credential, generation }));
  assert.equal(at('/etc/svc.keytab'), at('/run/svc.keytab'));
  assert.notEqual(at('/etc/svc.keytab'), at('/etc/svc.keytab', 2));
});

test('R5 the ambient identity is neither the absent one nor one with an empty name', () => {
  const ambient = { principal: 'me', source: 'ambient', credential: '', generation: 1 } as const;
  const nameless = createKerberosIdentity({ ...ambient, name: undefined });
  const named = createKerberosIdentity({ ...ambient, name: '' });
  const dash = createKerberosIdentity({ ...ambient, name: '-' });
  const digests = [NO_IDENTITY, nameless, named, dash].map(identityDigest);
  assert.equal(new Set(digests).size, digests.length);
});

test('R4 equal fields in another object give the same digest', () => {
  const twin = createNtlmIdentity({
    principal: 'crm',
    username: 'CORP\\svc',
    workstation: 'WORKSTATION',
    ntHash: new Secret(Buffer.alloc(16, 1)),
    generation: 1,
  });
  assert.equal(identityDigest(twin), identityDigest(BASE));
});

test('R5 an identity of empty names is not the absent identity', () => {
  const empty = changed({ principal: '', domain: '', user: '', workstation: '', generation: 0 });
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
      { user: '1', generation: 11 },
      { user: '11', generation: 1 },
    ],
    [
      { domain: 'x', user: 'zusery' },
      { domain: 'xuserz', user: 'y' },
    ],
    [{ user: 'svc' }, { user: 'SVC' }],
    [{ user: 'svc' }, { user: 'svc\0' }],
    // Unpaired surrogates: UTF-8 makes U+FFFD of both.
    [{ user: '\ud800' }, { user: '\ud801' }],
    [{ user: '\ud800' }, { user: '\ufffd' }],
  ];
  for (const [a, b] of pairs) {
    assert.notEqual(identityDigest(changed(a)), identityDigest(changed(b)), inspect([a, b]));
  }
});

test('R9 a digest has the full width of its function', () => {
  assert.match(identityDigest(BASE), /^[0-9a-f]{64}$/);
  assert.match(identityDigest(NO_IDENTITY), /^[0-9a-f]{64}$/);
});

test('R46 neither a secret nor a bare digest of it shows in a digest or a fingerprint', () => {
  const bytes = Buffer.from('canary secret 16');
  const secret = new Secret(bytes);
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
