import assert from 'node:assert/strict';
import { test } from 'node:test';
import { askedChallenges } from '../../../src/http/asked-challenges.ts';

const schemes = (...fields: string[]): string[] =>
  askedChallenges(fields).map(({ scheme }) => scheme);

test('R19 a malformed line asks for every scheme that it may name', () => {
  assert.deepEqual(schemes('NTLM, Basic realm=my own realm'), ['ntlm', 'basic']);
  assert.deepEqual(schemes('NTLM !!!', 'Basic realm="r"'), ['ntlm', 'basic']);
  assert.deepEqual(schemes('Basic realm="a" x,NEGOTIATE'), ['basic', 'negotiate']);
  assert.deepEqual(schemes('', ' ,'), []);
});

test('a sound line asks for what it says and nothing else', () => {
  assert.deepEqual(schemes('Basic realm="a, NTLM"'), ['basic']);
  assert.equal(askedChallenges(['NTLM YWJj'])[0]?.token68, 'YWJj');
  // What a malformed line has behind its scheme is no token.
  assert.equal(askedChallenges(['NTLM YWJj x'])[0]?.token68, undefined);
});
