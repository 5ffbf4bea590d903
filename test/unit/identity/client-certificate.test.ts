import assert from 'node:assert/strict';
import { X509Certificate } from 'node:crypto';
import { describe, test } from 'node:test';
import {
  alternativeNames,
  readClientCertificate,
} from '../../../src/identity/client-certificate.ts';
import { Authority } from '../../support/authority.ts';

describe('alternative names of a certificate', () => {
  test('are told by their kind', () => {
    const names = alternativeNames('URI:spiffe://a/b, DNS:a.b, DNS:c.d, IP Address:127.0.0.1');
    assert.deepEqual(names.get('URI'), ['spiffe://a/b']);
    assert.deepEqual(names.get('DNS'), ['a.b', 'c.d']);
    assert.equal(names.get('email'), undefined);
  });

  test('one that holds what separates names is one name', () => {
    const names = alternativeNames('DNS:"good.example, DNS:evil.example", URI:x');
    assert.deepEqual(names.get('DNS'), ['good.example, DNS:evil.example']);
    assert.deepEqual(names.get('URI'), ['x']);
  });

  test('are none at all where the text is not as expected', () => {
    for (const text of ['DNS', 'DNS:a,DNS:b', 'DNS:a"b', 'DNS:"a', 'DNS:"a"b', ', DNS:a']) {
      assert.equal(alternativeNames(text).size, 0, text);
    }
  });
});

test('a certificate is read into its fields, and its thumbprint is that of tokens', () => {
  const issued = new Authority('Lab CA').issue('alice', {
    subject: '/O=Lab/OU=Dev/OU=Ops/CN=alice',
    names: 'URI:spiffe://lab/alice,email:a@lab.test',
  });
  const read = readClientCertificate(new X509Certificate(issued.cert), {
    fault: undefined,
    trust: 't',
  });
  assert.deepEqual(
    { ...read.fields },
    {
      cn: ['alice'],
      organization: ['Lab'],
      unit: ['Dev', 'Ops'],
      issuer: ['Lab CA'],
      'san-uri': ['spiffe://lab/alice'],
      'san-dns': [],
      'san-email': ['a@lab.test'],
    },
  );
  assert.match(read.thumbprint, /^[\w-]{43}$/);
  assert.ok(read.notBeforeMs <= Date.now() && read.notAfterMs > Date.now());
});
