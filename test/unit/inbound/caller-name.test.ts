/** How callers' names are told to upstreams (hostile row B1). */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import * as fc from 'fast-check';
import { isAcceptableName, nameFieldValue } from '../../../src/inbound/caller-name.ts';

describe('the name of a caller in a field', () => {
  const rows: [name: string, value: string][] = [
    ['alice', 'alice'],
    ['CORP\\alice', 'CORP\\alice'],
    ['alice@corp.example', 'alice@corp.example'],
    ['Alice B', 'Alice B'],
    [' alice ', '%20alice%20'],
    ['jos\u00e9', 'jos%C3%A9'],
    ['100%', '100%25'],
    ['%61lice', '%2561lice'],
    ['\u{1f600}', '%F0%9F%98%80'],
  ];
  for (const [name, value] of rows) {
    test(`${JSON.stringify(name)} is ${value}`, () => {
      assert.equal(isAcceptableName(name), true);
      assert.equal(nameFieldValue(name), value);
      assert.equal(decodeURIComponent(value), name);
    });
  }

  test('B1 is printable ASCII without quotes and commas, and names its caller alone', () => {
    const names = fc.string({ unit: 'binary', minLength: 1, maxLength: 40 });
    fc.assert(
      fc.property(names, (name) => {
        fc.pre(isAcceptableName(name));
        const value = nameFieldValue(name);
        assert.match(value, /^[!#-+\--~]([ !#-+\--~]*[!#-+\--~])?$/);
        assert.equal(decodeURIComponent(value), name);
      }),
    );
  });

  test('B1 is not there for a name that ends a line, a member of a list or a text somewhere', () => {
    const hostile = ['', 'a\r', 'a\nb', 'a\0', '"', 'a,b', '\x7f', '\u0085', '\u2028', '\u2029'];
    hostile.push('\ud800', 'a\udc00', '\u202ea', '\u2066', '\ufeffa', 'a\u200b', 'a'.repeat(1025));
    for (const name of hostile) assert.equal(isAcceptableName(name), false, JSON.stringify(name));
  });
});
