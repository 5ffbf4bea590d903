/** RFC 1320 A.5 and block boundaries. */
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { md4 } from '../../src/auth/ntlm/md4.ts';
import { readVectors } from './vectors.ts';

const vectors = readVectors('md4.json') as { text: string; digest: string }[];

for (const { text, digest } of vectors) {
  test(`RFC 1320 A.5: MD4 of ${text.length} bytes "${text.slice(0, 20)}"`, () => {
    assert.equal(md4(Buffer.from(text, 'latin1')).toString('hex'), digest);
  });
}
