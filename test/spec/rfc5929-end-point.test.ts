/** RFC 5929 4.1: the tls-server-end-point binding of certificates. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import * as fc from 'fast-check';

import { channelBindingsHash, channelBindingsStruct } from '../../src/auth/ntlm/target-info.ts';
import { endPointBinding } from '../../src/upstream/channel-binding.ts';
import { hex, readVectors } from './vectors.ts';

const vectors = readVectors('channel-bindings.json') as {
  certificates: {
    name: string;
    der: string;
    applicationData: string | null;
    bindingsHash: string | null;
  }[];
  structs: { applicationData: string; packed: string }[];
};

const toHex = (bytes: Uint8Array | undefined): string | null =>
  bytes === undefined ? null : Buffer.from(bytes).toString('hex');

const certificates = vectors.certificates.map(({ der }) => Buffer.from(der, 'base64'));

for (const { name, der, applicationData, bindingsHash } of vectors.certificates) {
  test(`RFC 5929 4.1: ${name} ${applicationData === null ? 'has no binding' : 'has its binding'}`, () => {
    const binding = endPointBinding(Buffer.from(der, 'base64'));
    assert.equal(toHex(binding), applicationData);
    if (bindingsHash !== null) assert.equal(toHex(channelBindingsHash(binding)), bindingsHash);
  });
}

for (const { applicationData, packed } of vectors.structs) {
  test('RFC 2744 3.11: addresses are empty and the application data is counted', () => {
    assert.equal(toHex(channelBindingsStruct(hex(applicationData))), packed);
  });
}

test('without TLS the channel bindings are 16 zero bytes', () => {
  assert.deepEqual([...channelBindingsHash(undefined)], Array(16).fill(0));
});

/** One DER element with a short or two-byte length. */
function element(tag: number, ...parts: Buffer[]): Buffer {
  const body = Buffer.concat(parts);
  const length = body.length < 0x80 ? [body.length] : [0x82, body.length >> 8, body.length & 0xff];
  return Buffer.concat([Buffer.from([tag, ...length]), body]);
}

const oid = (contents: string): Buffer => element(0x06, hex(contents));
const SHA256 = element(0x30, oid('608648016503040201'), hex('0500'));
const SHA384 = element(0x30, oid('608648016503040202'));
const mgf1 = (hash: Buffer): Buffer =>
  element(0xa1, element(0x30, oid('2a864886f70d010108'), hash));
const pssCertificate = (...parameters: Buffer[]): Buffer =>
  element(
    0x30,
    element(0x30),
    element(0x30, oid('2a864886f70d01010a'), element(0x30, ...parameters)),
    element(0x03, hex('00')),
  );

describe('RSASSA-PSS parameters (RFC 4055 3.1)', () => {
  test('one hash for message and mask is used', () => {
    const binding = endPointBinding(pssCertificate(element(0xa0, SHA384), mgf1(SHA384)));
    assert.equal(binding?.length, 'tls-server-end-point:'.length + 48);
  });

  test('both absent mean SHA-1, which becomes SHA-256', () => {
    assert.equal(endPointBinding(pssCertificate())?.length, 'tls-server-end-point:'.length + 32);
  });

  test('two hashes are more than one hash function, and give no binding', () => {
    const parameters = [element(0xa0, SHA256), mgf1(SHA384)];
    assert.equal(endPointBinding(pssCertificate(...parameters)), undefined);
    assert.equal(endPointBinding(pssCertificate(element(0xa0, SHA256))), undefined);
  });
});

describe('hostile certificates (A12)', () => {
  const [good] = certificates;
  assert.ok(good);
  const rsa = element(0x30, oid('2a864886f70d01010b'), hex('0500'));
  const signature = element(0x03, hex('00'));

  test('the smallest certificate shape is read, so that the refusals below have one cause', () => {
    assert.ok(endPointBinding(element(0x30, element(0x30), rsa, signature)));
  });

  test('bytes after the certificate, or inside it, are refused', () => {
    assert.equal(endPointBinding(Buffer.concat([good, hex('00')])), undefined);
    assert.equal(endPointBinding(Buffer.concat([good, good])), undefined);
    assert.equal(
      endPointBinding(element(0x30, element(0x30), rsa, signature, hex('0500'))),
      undefined,
    );
  });

  test('indefinite, overlong and 32-bit lengths are refused', () => {
    for (const start of ['3080', '3084ffffffff', '308501000000', '30ff', '3f8130', '30']) {
      assert.equal(endPointBinding(Buffer.concat([hex(start), good.subarray(4)])), undefined);
    }
  });

  test('an element inside is held to the same rules: long form yes, indefinite and large tags no', () => {
    const tbs = element(0x30);
    const certificate = (first: Buffer, last: Buffer) =>
      endPointBinding(element(0x30, first, rsa, last));
    assert.ok(certificate(tbs, hex('038100')));
    assert.ok(certificate(hex('308400000000'), signature));
    assert.equal(certificate(tbs, hex('0380')), undefined);
    assert.equal(certificate(hex('30850000000000'), signature), undefined);
    assert.equal(certificate(hex('1f00'), signature), undefined);
  });

  test('an empty object identifier and a wrong tag are refused', () => {
    const noOid = element(0x30, oid(''), hex('0500'));
    assert.equal(endPointBinding(element(0x30, element(0x30), noOid, signature)), undefined);
    assert.equal(endPointBinding(element(0x31, element(0x30), rsa, signature)), undefined);
    assert.equal(endPointBinding(element(0x30, element(0x30), rsa, hex('0500'))), undefined);
  });

  test('ten thousand levels of nesting cost nothing', () => {
    let nested: Buffer = Buffer.alloc(0);
    for (let level = 0; level < 10_000 && nested.length < 60_000; level += 1) {
      nested = element(0x30, nested);
    }
    assert.equal(endPointBinding(nested), undefined);
    assert.equal(endPointBinding(pssCertificate(element(0xa0, nested))), undefined);
  });

  test('no bytes make it throw', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 200 }), (bytes) => {
        endPointBinding(bytes);
      }),
      { numRuns: 2_000 },
    );
    fc.assert(
      fc.property(
        fc.constantFrom(...certificates),
        fc.nat(),
        fc.nat(255),
        (certificate, at, byte) => {
          const mutated = Buffer.from(certificate);
          mutated[at % mutated.length] = byte;
          endPointBinding(mutated);
          endPointBinding(mutated.subarray(0, at % mutated.length));
        },
      ),
      { numRuns: 2_000 },
    );
  });
});
