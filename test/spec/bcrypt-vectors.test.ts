/** bcrypt: known answers of crypt_blowfish (wrapper.c), pyca/bcrypt and Apache's documentation. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { parsePasswordHash } from '../../src/identity/hash-form.ts';
import { isPasswordOf } from '../../src/inbound/htpasswd/password-hash.ts';

const LONG = '0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789';

const VECTORS: [password: string, hash: string][] = [
  ['U*U', '$2a$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW'],
  ['U*U*', '$2a$05$CCCCCCCCCCCCCCCCCCCCC.VGOzA784oUp/Z0DY336zx7pLYAy0lwK'],
  ['U*U*U', '$2a$05$XXXXXXXXXXXXXXXXXXXXXOAcXxm9kjPGEMsLznoKqmqw7tc8WCx4a'],
  ['', '$2a$05$CCCCCCCCCCCCCCCCCCCCC.7uG0VCzI2bS7j6ymqJi9CdcdxiRTWNy'],
  [LONG, '$2a$05$abcdefghijklmnopqrstuu5s2v8.iXieOjg/.AySBTTZIIVFJeBui'],
  ['Kk4DQuMMfZL9o', '$2b$04$cVWp4XaNU8a4v1uMRum2SO026BWLIoQMD/TXg5uZV.0P.uO8m3YEm'],
  ['9IeRXmnGxMYbs', '$2b$04$pQ7gRO7e6wx/936oXhNjrOUNOHL1D0h1N2IDbJZYs.1ppzSof6SPy'],
  ['myPassword', '$2y$05$c4WoMPo3SXsafkva.HHa6uXQZWr7oboPiC2bT/r7q1BB8I2s0BRqC'],
];

describe('bcrypt', () => {
  for (const [password, text] of VECTORS) {
    for (const revision of ['$2a$', '$2b$', '$2y$']) {
      test(`${revision} takes ${text.slice(4, 16)}… for its password and for no other`, () => {
        const hash = parsePasswordHash(revision + text.slice(4));
        assert.ok(typeof hash !== 'string', String(hash));
        assert.equal(isPasswordOf(password, hash), true);
        assert.equal(isPasswordOf(`x${password}`, hash), false);
      });
    }
  }

  test('looks at the first 72 bytes of a password only, as every implementation does', () => {
    const hash = parsePasswordHash('$2a$05$abcdefghijklmnopqrstuu5s2v8.iXieOjg/.AySBTTZIIVFJeBui');
    assert.ok(typeof hash !== 'string');
    assert.equal(isPasswordOf(`${LONG}chars after 72 are ignored`, hash), true);
    assert.equal(isPasswordOf(LONG.slice(0, 71), hash), false);
  });
});
