/** The strict JSON reader beside JSON.parse: the same where both agree to read. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import * as fc from 'fast-check';
import { parseJsonObject } from '../../../src/identity/strict-json.ts';

const faultOf = (text: string): string | undefined => {
  const parsed = parseJsonObject(text);
  return 'fault' in parsed ? parsed.fault : undefined;
};

test('objects are read as JSON.parse reads them', () => {
  const texts = [
    '{}',
    ' \t\r\n{ } ',
    '{"a":[],"b":{},"":null,"c":[true,false,null,[1,-0,0.5,1e3,1E-2,-12.25e+1]]}',
    '{"text":"\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9\\ud83d\\ude00 é 😀 \u2028"}',
  ];
  for (const text of texts) {
    const parsed = parseJsonObject(text);
    assert.ok('object' in parsed, text);
    assert.equal(JSON.stringify(parsed.object), JSON.stringify(JSON.parse(text)));
  }
});

test('what is read has no prototype and cannot be changed, however deep', () => {
  const parsed = parseJsonObject('{"__proto__":{"a":1},"constructor":[{"toString":2}]}');
  assert.ok('object' in parsed);
  const visit = (value: unknown): void => {
    if (typeof value !== 'object' || value === null) return;
    assert.ok(Object.isFrozen(value));
    if (!Array.isArray(value)) assert.equal(Object.getPrototypeOf(value), null);
    Object.values(value).forEach(visit);
  };
  visit(parsed.object);
  assert.deepEqual(Object.keys(parsed.object), ['__proto__', 'constructor']);
});

describe('refused is', () => {
  const deep = (depth: number): string => `{"a":${'['.repeat(depth - 1)}${']'.repeat(depth - 1)}}`;
  const rows: [text: string, fault: string][] = [
    ['{"a":1,"a":1}', 'has two members of one name'],
    ['{"b":[{"a":1,"\\u0061":2}]}', 'has two members of one name'],
    ['{"__proto__":1,"__proto__":2}', 'has two members of one name'],
    ['{"a":1e999}', 'has a number out of range'],
    ['{"a":"\\ud83d"}', 'has text that is not Unicode'],
    ['{"\\ude00\\ud83d":1}', 'has text that is not Unicode'],
    [deep(33), 'is nested too deeply'],
    [`{"a":${'{"a":'.repeat(5000)}`, 'is nested too deeply'],
    ['[]', 'is no JSON object'],
    ['"a"', 'is no JSON object'],
  ];
  // prettier-ignore
  const malformed = [
    '', '{', '{"a"', '{"a":', '{"a":1', '{"a":1,', '{"a":1,}', '{"a":1}}', '{"a":1}x',
    '{a:1}', "{'a':1}", '{"a" 1}', '{"a":01}', '{"a":1.}', '{"a":.5}', '{"a":+1}', '{"a":-}',
    '{"a":1e}', '{"a":NaN}', '{"a":Infinity}', '{"a":tru}', '{"a":truee}', '{"a":[1,]}',
    '{"a":"\n"}', '{"a":"\\x41"}', '{"a":"\\u12"}', '{"a":"', '{"a":"\\', '{"a":"\\"}',
    '\ufeff{}', '{}\0', '{}\u00a0', '{/**/}', '{"a":[1 2]}', '{"a":1 "b":2}', '[1,', 'x',
  ];
  for (const text of malformed) rows.push([text, 'is not JSON']);
  for (const [text, fault] of rows) {
    test(JSON.stringify(text.slice(0, 40)), () => assert.equal(faultOf(text), fault));
  }

  test('nothing of 32 levels', () => assert.equal(faultOf(deep(32)), undefined));
});

test('any value that JSON can write is read back, and damaged text as JSON.parse does', () => {
  const texts = fc
    .tuple(fc.dictionary(fc.string(), fc.jsonValue({ maxDepth: 4 })), fc.nat(), fc.nat(127))
    .map(([value, at, byte]) => {
      const text = JSON.stringify(value);
      const damaged = text.slice(0, at % text.length) + String.fromCharCode(byte);
      return [text, damaged + text.slice((at % text.length) + 1)] as const;
    });
  fc.assert(
    fc.property(texts, ([text, damaged]) => {
      const whole = parseJsonObject(text);
      if ('object' in whole)
        assert.equal(JSON.stringify(whole.object), JSON.stringify(JSON.parse(text)));
      // Half surrogates may be in the arbitrary text; nothing else is refused.
      else
        assert.ok(whole.fault === 'has text that is not Unicode' || whole.fault.includes('name'));
      const half = parseJsonObject(damaged);
      if ('object' in half) {
        assert.equal(JSON.stringify(half.object), JSON.stringify(JSON.parse(damaged)));
      } else if (half.fault === 'is not JSON') {
        assert.throws(() => JSON.parse(damaged), SyntaxError);
      }
    }),
    { numRuns: 2_000 },
  );
});
