import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import { readPersistence } from '../../../src/auth/persistence.ts';
import type { Mechanism } from '../../../src/auth/scheme-choice.ts';

const LOGINS: readonly (readonly [Mechanism, number, 'connection' | 'unsaid'])[] = [
  ['kerberos', 1, 'unsaid'],
  ['kerberos', 2, 'connection'],
  ['ntlm-in-negotiate', 1, 'connection'],
  ['ntlm-in-negotiate', 2, 'connection'],
  ['ntlm-in-negotiate', 3, 'connection'],
  ['ntlm', 2, 'connection'],
];

describe('R37 Persistent-Auth', () => {
  for (const [mechanism, legs, silent] of LOGINS) {
    test(`of ${mechanism} in ${legs}: true and false are honoured, absence means ${silent}`, () => {
      for (const value of ['true', 'True', ' TRUE\t']) {
        assert.equal(readPersistence([value], mechanism, legs), 'connection', value);
      }
      for (const value of ['false', 'FALSE', ' false ']) {
        assert.equal(readPersistence([value], mechanism, legs), 'request', value);
      }
      assert.equal(readPersistence([], mechanism, legs), silent);
    });

    test(`of ${mechanism} in ${legs}: anything else is as good as absent`, () => {
      for (const value of ['', 'yes', '1', 'true, false', 'true;q=1', '"true"', 'truefalse']) {
        assert.equal(readPersistence([value], mechanism, legs), silent, value);
      }
      for (const values of [
        ['true', 'false'],
        ['false', 'true'],
        ['true', 'true'],
        ['false', ''],
      ]) {
        assert.equal(readPersistence(values, mechanism, legs), silent, values.join('|'));
      }
    });
  }
});
