/** YAML to plain data: places, and what of YAML is refused. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { formatYaml, parseYaml } from '../../../src/config/yaml-document.ts';

const messages = (text: string): string[] =>
  parseYaml(text).faults.map(
    ({ place, finding }) => `${place.line}:${place.column}: ${finding.message}`,
  );

test('places are those of the value and of the key', () => {
  const document = parseYaml('a:\n  - b: 1\n    "c": [2, x]\n');
  assert.deepEqual(document.placeOf(['a', 0, 'c'], 'key'), { line: 3, column: 5 });
  assert.deepEqual(document.placeOf(['a', 0, 'c', 1], 'value'), { line: 3, column: 14 });
  assert.deepEqual(document.placeOf(['a', 0, 'missing'], 'key'), { line: 2, column: 5 });
});

test('columns count characters, not bytes, and CRLF is one line end', () => {
  const document = parseYaml("a: 'ü'\r\nb: { ü: 1, c: 2 }\r\n");
  assert.deepEqual(document.placeOf(['b', 'c'], 'value'), { line: 2, column: 15 });
});

test('off, no and yes are text, as in YAML 1.2', () => {
  assert.deepEqual(
    JSON.stringify(parseYaml('[off, no, yes, false]').data),
    '["off","no","yes",false]',
  );
});

test('an alias stands for its anchor, and its place is its own', () => {
  const document = parseYaml('a: &x { b: 1 }\nc: *x\n');
  assert.equal(JSON.stringify(document.data), '{"a":{"b":1},"c":{"b":1}}');
  assert.deepEqual(document.placeOf(['c'], 'value'), { line: 2, column: 4 });
});

test('what YAML has beyond plain data is refused', () => {
  assert.deepEqual(messages('a: *b'), [
    '1:4: the alias has no anchor before it (quote a value that starts with *)',
  ]);
  assert.deepEqual(messages('a: &x [*x]'), [
    '1:8: the alias has no anchor before it (quote a value that starts with *)',
  ]);
  assert.deepEqual(messages('a: !b c'), ['1:4: tags are not used here']);
  assert.deepEqual(messages('a: !!binary aGk='), ['1:13: tags are not used here']);
  assert.deepEqual(messages('<<: { a: 1 }'), ['1:1: merge keys are not supported']);
  assert.deepEqual(messages('a: 1\n---\nb: 2'), ['2:1: the file must hold one document']);
  assert.deepEqual(messages('? [a]\n: 1'), ['1:3: a key must be plain text']);
  assert.deepEqual(messages('__proto__: { a: 1 }'), ['1:1: a key must be plain text']);
});

test('a key that stands twice is a fault at the second', () => {
  assert.deepEqual(messages('a: 1\nb: { c: 1, c: 2 }\na: 3'), [
    '2:12: the key stands twice',
    '3:1: the key stands twice',
  ]);
});

test('faults of syntax have words for what people do', () => {
  assert.deepEqual(messages('a:\n\tb: 1'), ['2:1: tabs cannot indent']);
  assert.deepEqual(messages('a: b: c'), [
    '1:4: a value that holds a colon and a blank needs quotes',
  ]);
  assert.deepEqual(messages('a: @b'), [
    '1:4: a value that starts with this character needs quotes',
  ]);
  assert.match(messages('a: "CORP\\svc"')[0] ?? '', /single quotes take a backslash/);
});

test('I12 aliases cannot blow a small file up', () => {
  const levels = Array.from(
    { length: 12 },
    (_, i) => `a${i + 1}: &a${i + 1} [${`*a${i}, `.repeat(10)}]`,
  );
  const text = ['a0: &a0 [x]', ...levels].join('\n');
  assert.deepEqual(
    parseYaml(text).faults.map(({ finding }) => finding.message),
    ['the file holds too many values'],
  );
});

test('I12 deep nesting is a fault, not a crash', () => {
  assert.equal(
    parseYaml(`a: ${'['.repeat(40)}${']'.repeat(40)}`).faults[0]?.finding.message,
    'nested too deeply',
  );
  assert.ok(parseYaml('['.repeat(20_000)).faults.length > 0);
});

test('no text makes the parser throw', () => {
  const piece = fc.constantFrom(
    'a',
    ': ',
    '\n',
    '  ',
    '- ',
    '[',
    ']',
    '{',
    '}',
    '&x ',
    '*x',
    '!t ',
    '"',
    "'",
    '#',
    '|',
    '>',
    '?',
    '<<',
    '\t',
    '%',
  );
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 40 }), (pieces) => {
      const document = parseYaml(pieces.join(''));
      assert.ok(
        document.data !== undefined ||
          document.faults.length > 0 ||
          pieces.length === 0 ||
          document.data === null,
      );
    }),
    { numRuns: 2000 },
  );
});

test('plain data comes back from its YAML', () => {
  const data = { a: ['b', 1, true], c: { d: 'off', e: '0660', f: '1h' } };
  assert.equal(JSON.stringify(parseYaml(formatYaml(data)).data), JSON.stringify(data));
});
