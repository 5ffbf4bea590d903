import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import * as fc from 'fast-check';

import { decodeToken68, parseChallenges, type Challenge } from '../../../src/http/challenge.ts';
import { readVectors } from '../../spec/vectors.ts';

type Wanted = [scheme: string, value: string | Record<string, string> | null];

const cases = readVectors('authenticate-fields.json') as {
  fields: string[];
  challenges: Wanted[];
  note?: string;
}[];

/** A challenge in the notation of the vectors. */
function plain({ scheme, token68, params }: Challenge): Wanted {
  return [scheme, token68 ?? (params ? Object.fromEntries(params) : null)];
}

describe('RFC 9110 11.6.1: challenges', () => {
  for (const { fields, challenges, note } of cases) {
    const shown = fields.join(' | ').slice(0, 60);
    test(`${shown}${note === undefined ? '' : `: ${note}`}`, () => {
      assert.deepEqual(parseChallenges(fields).map(plain), challenges);
    });
  }

  test('a malformed field is dropped and the others stand', () => {
    const malformed = [
      'Basic realm="x',
      'NTLM@x',
      'NTLM/YWJj',
      'NTLM abc def',
      'Basic realm="a", realm="b"',
      'Negotiate, a=b',
      'Basic realm="a" charset="b"',
      'Basic realm="a\u0001b"',
      '"x"',
      'Digest realm="r", x=',
      'N\u0000TLM',
    ];
    for (const field of malformed) {
      assert.deepEqual(parseChallenges([field, 'NTLM']).map(plain), [['ntlm', null]], field);
    }
  });

  test('white space around a token68 is no part of it', () => {
    const fields = ['Negotiate YWJj ', ' Negotiate  YWJj\t, NTLM '];
    assert.deepEqual(parseChallenges(fields).map(plain), [
      ['negotiate', 'YWJj'],
      ['negotiate', 'YWJj'],
      ['ntlm', null],
    ]);
  });

  test('names of parameters are compared without case, and values keep theirs', () => {
    assert.deepEqual(parseChallenges(['Basic REALM="Ab"']).map(plain), [
      ['basic', { realm: 'Ab' }],
    ]);
  });

  test('no text makes it throw, and a long field costs linear time', () => {
    const alphabet = fc.constantFrom(
      ...Array.from('aN =,"\\\t/+~\u00e9\u0000'),
      'NTLM ',
      'realm="',
    );
    fc.assert(
      fc.property(fc.array(alphabet, { maxLength: 60 }), (parts) => {
        parseChallenges([parts.join('')]);
      }),
      { numRuns: 5_000 },
    );
    for (const part of ['a ', 'a=b,', ',', '"', 'a="', 'NTLM x, ', 'a\t=']) {
      const started = performance.now();
      parseChallenges([`NTLM ${part.repeat(200_000)}`]);
      assert.ok(performance.now() - started < 1_000, part);
    }
  });
});

describe('decodeToken68', () => {
  test('strict base64 is decoded', () => {
    assert.equal(decodeToken68('YWJj', 3)?.toString(), 'abc');
    assert.equal(decodeToken68('YWI=', 3)?.toString(), 'ab');
    assert.equal(decodeToken68('++//', 3)?.toString('hex'), 'fbefff');
  });

  test('A11: white space, other alphabets, bad padding and stray bits are refused', () => {
    const texts = ['YWJj ', ' YWJj', 'YW Jj', 'YWJj\n', '--__', 'YWI', '====', 'YWJjZA=', 'YWI==='];
    for (const text of [...texts, 'a=', 'YWJjé', 'YWJj\0', 'YWJ=', 'YWJj====', 'Y===', '']) {
      assert.equal(decodeToken68(text, 100), undefined, JSON.stringify(text));
    }
  });

  test('A10: a text that would pass the cap is refused before it is decoded', () => {
    assert.equal(decodeToken68('YWJj', 2), undefined);
    assert.equal(decodeToken68('YWI=', 2)?.toString(), 'ab');
    assert.equal(decodeToken68('A'.repeat(1_000_000), 12_288), undefined);
    assert.equal(decodeToken68('A'.repeat(16_384), 12_288)?.length, 12_288);
  });
});
