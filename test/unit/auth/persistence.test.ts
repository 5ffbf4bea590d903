import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import { LearnedPersistence, readPersistence } from '../../../src/auth/persistence.ts';
import type { Mechanism } from '../../../src/auth/scheme-choice.ts';

const LOGINS: readonly (readonly [Mechanism, number, 'connection' | 'request'])[] = [
  ['kerberos', 1, 'request'],
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

describe('what is learned of an upstream', () => {
  test('is nothing at first, then what was seen, as long as it is seen', () => {
    const learned = new LearnedPersistence();
    assert.equal(learned.known, undefined);
    for (let times = 0; times < 3; times += 1) {
      learned.observe('request');
      assert.equal(learned.known, 'request');
    }
  });

  test('falls back to unknown on a contradiction, both ways, and can be learned again', () => {
    for (const [first, second] of [
      ['connection', 'request'],
      ['request', 'connection'],
    ] as const) {
      const learned = new LearnedPersistence();
      learned.observe(first);
      learned.observe(second);
      assert.equal(learned.known, undefined);
      learned.observe(second);
      assert.equal(learned.known, second);
    }
  });

  test('a challenge on a connection that was logged in contradicts that logins last', () => {
    const learned = new LearnedPersistence();
    learned.observe('connection');
    learned.challengedAgain();
    assert.equal(learned.known, undefined);
    learned.observe('request');
    learned.challengedAgain();
    assert.equal(learned.known, 'request');
  });
});
