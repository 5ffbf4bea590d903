/** Apache's apr1: the examples that its documentation, OpenSSL's manual and passlib's tests publish. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { parsePasswordHash } from '../../src/identity/hash-form.ts';
import { isPasswordOf } from '../../src/inbound/htpasswd/password-hash.ts';

const VECTORS: [source: string, password: string, hash: string][] = [
  ['Apache, Password Formats', 'myPassword', '$apr1$r31.....$HqJZimcKQFAMYayBlzkrA/'],
  ['openssl-passwd(1)', 'password', '$apr1$xxxxxxxx$dxHfLAsjHkDRmG83UXe8K0'],
  ['passlib, UTF-8', 't\u00e1\u0411\u2113\u0259', '$apr1$bzYrOHUx$a1FcpXuQDJV3vPY20CS6N1'],
  ['a password longer than a digest', '12345678901234567', '$apr1$xxxxxxxx$e9cFJu9y.UyLugYQA0cNc1'],
];

describe('apr1', () => {
  for (const [source, password, text] of VECTORS) {
    test(`takes the example of ${source}`, () => {
      const hash = parsePasswordHash(text);
      assert.ok(typeof hash !== 'string', String(hash));
      assert.equal(isPasswordOf(password, hash), true);
      assert.equal(isPasswordOf(password.slice(1), hash), false);
    });
  }
});
