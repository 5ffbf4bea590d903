/** Fields of answers that name the upstream: what they become, as a table, and what is left alone. */

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import * as fc from 'fast-check';
import { createRewriter, type RewriteFacts } from '../../../src/proxy/rewrite.ts';
import { RESPONSE_FIELD } from '../../../src/wire/response-head.ts';

const CALLER = 'proxy.test:8080';

const FACTS: RewriteFacts = {
  upstreamScheme: 'https',
  upstreamHost: 'crm.corp.example',
  upstreamPort: 443,
  basePath: '/base',
  routePrefix: '/crm',
  listenerScheme: 'http',
  sendsCallerHost: false,
  location: true,
  cookies: true,
};

type Field = 'location' | 'contentLocation' | 'refresh' | 'setCookie';

function rewritten(
  field: Field,
  value: string,
  facts: Partial<RewriteFacts> = {},
  caller = CALLER,
): string | undefined {
  const rewriter = createRewriter({ ...FACTS, ...facts });
  return rewriter?.rewrite(RESPONSE_FIELD[field], value, caller);
}

const UNCHANGED = undefined;

describe('a Location', () => {
  const rows: [value: string, becomes: string | undefined, facts?: Partial<RewriteFacts>][] = [
    ['https://crm.corp.example/base/x?y=1#z', 'http://proxy.test:8080/crm/x?y=1#z'],
    ['https://CRM.corp.example:443/base', 'http://proxy.test:8080/crm'],
    ['HTTPS://crm.corp.example./base/x', 'http://proxy.test:8080/crm/x'],
    ['//crm.corp.example/base/x', 'http://proxy.test:8080/crm/x'],
    ['/base/x', '/crm/x'],
    ['/base?x', '/crm?x'],
    ['/base', '/', { routePrefix: '' }],
    ['https://crm.corp.example', 'http://proxy.test:8080/', { basePath: '', routePrefix: '' }],
    ['https://crm.corp.example?x', 'http://proxy.test:8080/?x', { basePath: '', routePrefix: '' }],
    ['/x', '/crm/x', { basePath: '' }],
    // Another origin, or another place of the same one.
    ['http://crm.corp.example/base/x', UNCHANGED],
    ['https://crm.corp.example:8443/base/x', UNCHANGED],
    ['https://other.corp.example/base/x', UNCHANGED],
    ['https://crm.corp.example.evil.test/base/x', UNCHANGED],
    ['https://user@crm.corp.example/base/x', UNCHANGED],
    ['https://crm.corp.example/basement', UNCHANGED],
    ['https://crm.corp.example/other', UNCHANGED],
    ['https://crm.corp.example/other', UNCHANGED, { routePrefix: '/base' }],
    ['/other', UNCHANGED],
    ['relative/x', UNCHANGED],
    ['?x=1', UNCHANGED],
    ['', UNCHANGED],
    ['mailto:crm.corp.example', UNCHANGED],
    ['/x', UNCHANGED, { basePath: '', routePrefix: '' }],
    ['https://proxy.test:8080/base/x', UNCHANGED],
    ['https://proxy.test:8080/base/x', 'http://proxy.test:8080/crm/x', { sendsCallerHost: true }],
  ];
  for (const [value, becomes, facts] of rows) {
    const how = facts === undefined ? '' : ` with ${JSON.stringify(facts)}`;
    it(`"${value}" ${becomes === undefined ? 'stays' : `becomes "${becomes}"`}${how}`, () => {
      assert.equal(rewritten('location', value, facts), becomes);
      assert.equal(rewritten('contentLocation', value, facts), becomes);
    });
  }

  it('of an IPv6 upstream is known by its address', () => {
    const facts = { upstreamHost: '2001:db8::1', upstreamPort: 8443 };
    const value = 'https://[2001:db8::1]:8443/base/x';
    assert.equal(rewritten('location', value, facts), 'http://proxy.test:8080/crm/x');
  });

  it('becomes a path for a caller that named no host', () => {
    assert.equal(rewritten('location', 'https://crm.corp.example/base/x', {}, ''), '/crm/x');
  });

  it('stays when rewriteLocation is off', () => {
    assert.equal(rewritten('location', '/base/x', { location: false }), UNCHANGED);
    assert.equal(createRewriter({ ...FACTS, location: false, cookies: false }), undefined);
  });
});

describe('a Refresh', () => {
  const rows: [value: string, becomes: string | undefined][] = [
    ['5; url=https://crm.corp.example/base/x', '5; url=http://proxy.test:8080/crm/x'],
    ['0;URL="/base/x"', '0;URL="/crm/x"'],
    ["0.5, url = '/base/x' ", "0.5, url = '/crm/x' "],
    ['0; /base/x', '0; /crm/x'],
    ['5', UNCHANGED],
    ['5; url=https://other.example/', UNCHANGED],
    ['0; url="/base/x', UNCHANGED],
    ['soon; url=/base/x', UNCHANGED],
  ];
  for (const [value, becomes] of rows) {
    it(`"${value}" ${becomes === undefined ? 'stays' : `becomes "${becomes}"`}`, () => {
      assert.equal(rewritten('refresh', value), becomes);
    });
  }

  it('of 60,000 blanks costs no more than its length', () => {
    const value = `0; url=x${' '.repeat(60_000)}y`;
    const before = performance.now();
    for (let i = 0; i < 10; i += 1) assert.equal(rewritten('refresh', value), UNCHANGED);
    assert.ok(performance.now() - before < 1000);
  });
});

describe('a Set-Cookie', () => {
  const rows: [value: string, becomes: string | undefined, facts?: Partial<RewriteFacts>][] = [
    ['a=1; Domain=crm.corp.example; Path=/base/; Secure', 'a=1; Path=/crm/'],
    ['a=1; domain=.corp.example; HttpOnly', 'a=1; HttpOnly'],
    ['a=1; Path=/base/k=v', 'a=1; Path=/crm/k=v'],
    ['a=1; Domain=other.example', UNCHANGED],
    ['a=1; Path=/', UNCHANGED],
    ['a=1; Path=', UNCHANGED],
    ['a=1; Path', UNCHANGED],
    ['a=1; path=/base', 'a=1; Path=/', { routePrefix: '' }],
    ['a=1; Path=', UNCHANGED, { basePath: '' }],
    ['a=1; Path=/x', 'a=1; Path=/crm/x', { basePath: '' }],
    ['a=1; path=/base', UNCHANGED, { routePrefix: '/base' }],
    ['Path=/base; Path=/base/x', 'Path=/base; Path=/crm/x'],
    ['a=1; Secure', UNCHANGED, { upstreamScheme: 'http' }],
    ['a=1; SameSite=Lax; Max-Age=5', UNCHANGED],
  ];
  for (const [value, becomes, facts] of rows) {
    const how = facts === undefined ? '' : ` with ${JSON.stringify(facts)}`;
    it(`"${value}" ${becomes === undefined ? 'stays' : `becomes "${becomes}"`}${how}`, () => {
      assert.equal(rewritten('setCookie', value, facts), becomes);
    });
  }

  it('stays when rewriteCookies is off', () => {
    assert.equal(rewritten('setCookie', 'a=1; Path=/base', { cookies: false }), UNCHANGED);
  });
});

describe('a cookie that is left alone', () => {
  const concerns = (value: string, facts: Partial<RewriteFacts> = {}): boolean | undefined => {
    const bytes = Buffer.from(`x${value}x`, 'latin1');
    const rewriter = createRewriter({ ...FACTS, ...facts });
    return rewriter?.concerns(RESPONSE_FIELD.setCookie, bytes, 1, bytes.length - 1);
  };

  it('is known by its bytes: no attribute of it can change', () => {
    for (const value of [
      'a=1',
      'a=domain',
      'a=1; HttpOnly',
      'a=1; Max-Age=1; SameSite=Lax',
      'a=;;',
    ]) {
      assert.equal(concerns(value), false, value);
    }
    for (const value of ['a=1;domain=x', 'a=1; \tPATH=/', 'a=1; x; Secure', 'a=1;\xa0secure']) {
      assert.equal(concerns(value), true, value);
    }
    assert.equal(concerns('a=1; Path=/x', { basePath: '', routePrefix: '' }), false);
    assert.equal(concerns('a=1; Secure', { upstreamScheme: 'http' }), false);
    assert.equal(concerns('a=1; Domain=x', { cookies: false }), false);
  });

  it('would have been left alone', () => {
    const part = fc.constantFrom(
      'a',
      '=',
      ';',
      ' ',
      '\t',
      '\xa0',
      'x',
      'Domain',
      'path',
      'secure',
      '/base',
    );
    const values = fc.array(part, { maxLength: 12 }).map((parts) => parts.join(''));
    fc.assert(
      fc.property(values, fc.boolean(), (value, isPlain) => {
        const facts = isPlain ? ({ basePath: '', routePrefix: '' } as const) : {};
        if (concerns(value, facts) === false) {
          assert.equal(rewritten('setCookie', value, facts), UNCHANGED);
        }
      }),
      { numRuns: 2000 },
    );
  });
});
