/** The fields of an HTTP/2 request as those of an HTTP/1.1 one. */

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { ProxyError } from '../../../../src/errors.ts';
import { translateFields } from '../../../../src/server/http2/stream-fields.ts';

type Line = readonly [string, string];

const PSEUDO: readonly Line[] = [
  [':method', 'GET'],
  [':scheme', 'http'],
  [':authority', 'a.example'],
  [':path', '/'],
];

function translate(
  lines: readonly Line[],
  changes: Readonly<Record<string, string>> = {},
  facts: { scheme: 'http' | 'https'; endsWithHead: boolean } = {
    scheme: 'http',
    endsWithHead: true,
  },
): ReturnType<typeof translateFields> {
  const pseudo = PSEUDO.map(([name, value]) => [name, changes[name] ?? value] as const);
  return translateFields([...pseudo, ...lines].flat(), facts);
}

function fieldsOf(...args: Parameters<typeof translate>): unknown {
  const result = translate(...args);
  assert.ok(!(result instanceof ProxyError));
  return Object.fromEntries(result.fields);
}

describe('translated fields', () => {
  it('keep lines apart, but for cookies', () => {
    const lines = [
      ['x', '1'],
      ['cookie', 'a=1'],
      ['x', '2'],
      ['cookie', 'b=2'],
      ['y', ''],
    ] as const;
    const expected = { host: 'a.example', x: ['1', '2'], cookie: 'a=1; b=2', y: '' };
    assert.deepEqual(fieldsOf(lines), expected);
  });

  it('have a framing where the head does not end the stream, and none where it does', () => {
    const more = { scheme: 'http', endsWithHead: false } as const;
    for (const method of ['GET', 'DELETE', 'POST', 'OPTIONS']) {
      const changes = { ':method': method };
      const chunked = { host: 'a.example', 'transfer-encoding': 'chunked' };
      assert.deepEqual(fieldsOf([], changes, more), chunked);
      const counted = { host: 'a.example', 'content-length': '3' };
      assert.deepEqual(fieldsOf([['content-length', '3']], changes, more), counted);
      assert.deepEqual(fieldsOf([], changes), { host: 'a.example' });
    }
  });

  it('leave Expect aside, and know who takes trailers', () => {
    const result = translate([
      ['expect', '100-continue'],
      ['te', 'trailers'],
    ]);
    assert.ok(!(result instanceof ProxyError));
    assert.deepEqual([result.expect, result.takesTrailers], ['100-continue', true]);
    assert.equal(result.fields.has('expect'), false);
  });

  it('have one host, by either name', () => {
    assert.deepEqual(fieldsOf([['host', 'A.example']]), { host: 'a.example' });
    const without = PSEUDO.filter(([name]) => name !== ':authority').flat();
    const facts = { scheme: 'http', endsWithHead: true } as const;
    const named = translateFields([...without, 'host', 'b.example'], facts);
    assert.ok(!(named instanceof ProxyError));
    assert.equal(named.fields.get('host'), 'b.example');
    assert.ok(translateFields(without, facts) instanceof ProxyError);
    assert.ok(translate([['host', 'b.example']]) instanceof ProxyError);
    const twice = ['host', 'b.example', 'host', 'b.example'];
    assert.ok(translateFields([...without, ...twice], facts) instanceof ProxyError);
  });

  const refused: [title: string, lines: readonly Line[], changes: Record<string, string>][] = [
    ...['connection', 'keep-alive', 'transfer-encoding', 'upgrade', 'http2-settings'].map(
      (name): [string, readonly Line[], Record<string, string>] => [name, [[name, 'x']], {}],
    ),
    ...['', 'x', '*', 'http://a/', '/ x', '/\r\n', '/\0', '/\x7f', '/\xe9'].map(
      (path): [string, readonly Line[], Record<string, string>] => [
        `the path ${JSON.stringify(path)}`,
        [],
        { ':path': path },
      ],
    ),
    ...['', 'get', 'G T', 'GET\r\n', 'CONNECT', 'TRACE'].map(
      (method): [string, readonly Line[], Record<string, string>] => [
        `the method ${JSON.stringify(method)}`,
        [],
        { ':method': method },
      ],
    ),
    ['another scheme', [], { ':scheme': 'https' }],
    ['a protocol', [[':protocol', 'websocket']], {}],
  ];
  for (const [title, lines, changes] of refused) {
    it(`are none for ${title}`, () => {
      const result = translate(lines, changes);
      assert.ok(result instanceof ProxyError);
      assert.ok(['request-malformed', 'method-refused'].includes(result.code));
    });
  }
});
