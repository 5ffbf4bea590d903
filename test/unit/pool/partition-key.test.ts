import assert from 'node:assert/strict';
import { test } from 'node:test';

import * as fc from 'fast-check';

import { identityDigest } from '../../../src/identity/digest.ts';
import { NO_IDENTITY } from '../../../src/identity/identity.ts';
import type { PartitionFacts } from '../../../src/pool/partition-key.ts';
import { encodePartitionKey, partitionId } from '../../../src/pool/partition-key.ts';
import { ALICE, BOB, ntlm } from './pool-world.ts';

const BASE: PartitionFacts = {
  nextHop: { host: 'crm.example', port: 443, tls: true },
  origin: { scheme: 'https', host: 'crm.example', port: 443 },
  originIdentity: identityDigest(ALICE),
  proxyIdentity: identityDigest(NO_IDENTITY),
  transport: 'transport-1',
  upstream: 'crm',
  scope: 'ntlm:HTTP/crm.example:auto',
};

const key = (changes: Partial<PartitionFacts>): string =>
  encodePartitionKey({ ...BASE, ...changes });

/** All keys differ from each other and from the base. */
function assertDistinct(...changes: readonly Partial<PartitionFacts>[]): void {
  const keys = [{}, ...changes].map(key);
  assert.equal(new Set(keys).size, keys.length);
}

test('R1 two origin identities have different keys', () => {
  assertDistinct({ originIdentity: identityDigest(BOB) });
});

test('R2 a request without an identity has a key of its own', () => {
  assertDistinct({ originIdentity: identityDigest(NO_IDENTITY) });
});

test('R3 the scheme of a login is in the key, for the same user too', () => {
  assertDistinct(
    { scope: 'basic:HTTP/crm.example:auto' },
    { scope: 'negotiate:HTTP/crm.example:auto' },
    { scope: '' },
  );
});

test('R4 every fact is in the key, and every field of an identity through its digest', () => {
  const changes: { [K in keyof PartitionFacts]-?: readonly PartitionFacts[K][] } = {
    nextHop: [
      { host: 'crm2.example', port: 443, tls: true },
      { host: 'crm.example', port: 444, tls: true },
      { host: 'crm.example', port: 443, tls: false },
      { socketPath: 'crm.example' },
    ],
    origin: [
      { scheme: 'http', host: 'crm.example', port: 443 },
      { scheme: 'https', host: 'crm2.example', port: 443 },
      { scheme: 'https', host: 'crm.example', port: 8443 },
      'any',
    ],
    originIdentity: [
      ntlm('alice', { username: 'CORP2\\alice' }),
      ntlm('alice', { workstation: 'OTHER' }),
      ntlm('alice', { secret: 2 }),
    ].map(identityDigest),
    proxyIdentity: [identityDigest(ALICE), identityDigest(BOB)],
    transport: ['transport-2', ''],
    upstream: ['crm2', ''],
    scope: ['ntlm:HTTP/crm.example:required', 'ntlm:HTTP/other:auto'],
  };
  assert.deepEqual(Object.keys(changes).sort(), Object.keys(BASE).sort());
  assertDistinct(
    ...Object.entries(changes).flatMap(([field, values]) =>
      values.map((value: unknown) => ({ [field]: value })),
    ),
  );
});

test('R7 the identity at a parent proxy is in the key, and is not taken for the origin identity', () => {
  const none = identityDigest(NO_IDENTITY);
  const alice = identityDigest(ALICE);
  assert.notEqual(
    key({ originIdentity: alice, proxyIdentity: none }),
    key({ originIdentity: none, proxyIdentity: alice }),
  );
});

test('R8 through one next hop, each origin has its own key', () => {
  const nextHop = { host: 'proxy.example', port: 3128, tls: false };
  assertDistinct(
    { nextHop },
    { nextHop, origin: { scheme: 'http', host: 'a.example', port: 80 } },
    { nextHop, origin: { scheme: 'http', host: 'b.example', port: 80 } },
    { nextHop, origin: 'any' },
  );
});

const text = fc.oneof(
  fc.string({ unit: 'binary', maxLength: 6 }),
  fc.string({ unit: fc.constantFrom('1', '2', ':', ';', '\0', 'a'), maxLength: 5 }),
);
const hop = fc.oneof(
  fc.record({ host: text, port: fc.nat(99), tls: fc.boolean() }),
  fc.record({ socketPath: text }),
);
const origin = fc.oneof(
  fc.constant('any' as const),
  fc.record({ scheme: text, host: text, port: fc.nat(99) }),
);
const digest = fc.constantFrom(...[ALICE, BOB, NO_IDENTITY].map(identityDigest));
const facts: fc.Arbitrary<PartitionFacts> = fc.record({
  nextHop: hop,
  origin,
  originIdentity: digest,
  proxyIdentity: digest,
  transport: text,
  upstream: text,
  scope: text,
});

test('R6 keys are equal exactly when all facts are', () => {
  const same = (a: PartitionFacts, b: PartitionFacts): boolean =>
    JSON.stringify(a) === JSON.stringify(b);
  fc.assert(
    fc.property(facts, facts, (a, b) => {
      assert.equal(encodePartitionKey(a) === encodePartitionKey(b), same(a, b));
      assert.equal(encodePartitionKey(a), encodePartitionKey(structuredClone(a)));
    }),
    { numRuns: 2000 },
  );
});

test('R6 moving characters between neighbouring facts changes the key', () => {
  fc.assert(
    fc.property(text, text, fc.nat(12), (a, b, cut) => {
      const joined = a + b;
      const other = { transport: joined.slice(0, cut), upstream: joined.slice(cut) };
      const equal = other.transport === a && other.upstream === b;
      assert.equal(key({ transport: a, upstream: b }) === key(other), equal);
    }),
    { numRuns: 2000 },
  );
});

test('R9 a key holds full values: long facts that differ in one character differ', () => {
  const long = 'x'.repeat(10_000);
  assert.notEqual(key({ transport: `${long}a` }), key({ transport: `${long}b` }));
  assert.ok(key({}).includes(identityDigest(ALICE)));
});

test('R10 a socket path, a zone, a port and the case of a path are in the key', () => {
  assertDistinct(
    { nextHop: { socketPath: '/run/a.sock' } },
    { nextHop: { socketPath: '/run/A.sock' } },
    { nextHop: { socketPath: '/run/a.sock', tls: true } },
    { nextHop: { host: '/run/a.sock', port: 0, tls: false } },
    { nextHop: { host: 'fe80::1%eth0', port: 80, tls: false } },
    { nextHop: { host: 'fe80::1%eth1', port: 80, tls: false } },
    { nextHop: { host: 'fe80::1', port: 80, tls: false } },
  );
});

test('R13 a hop with TLS and one without have different keys', () => {
  const plain = { host: 'crm.example', port: 443, tls: false };
  assertDistinct({ nextHop: plain });
});

test('R24 the transport settings and the name of an upstream are in the key', () => {
  assertDistinct({ transport: 'transport-2' }, { upstream: 'crm2' });
});

test('R46 the id for people tells nothing of the key', () => {
  const made = encodePartitionKey(BASE);
  assert.match(partitionId(made), /^[0-9a-f]{8}$/);
  assert.equal(partitionId(made), partitionId(encodePartitionKey(structuredClone(BASE))));
  assert.ok(!made.includes(partitionId(made)));
});
