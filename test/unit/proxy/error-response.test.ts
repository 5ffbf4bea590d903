/** The daemon's own answers: one status per code, in the form that the caller takes, without secrets. */

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { challengeLines, type OwnChallenge } from '../../../src/http/own-challenge.ts';
import { ERROR_CODES, type ErrorCode, ProxyError } from '../../../src/errors.ts';
import { createAnswerWriter, statusOf } from '../../../src/proxy/error-response.ts';

const WALL = Date.UTC(2026, 0, 2, 3, 4, 5);
const writer = createAnswerWriter(() => WALL);
const OPTIONS = { accept: undefined, isHead: false, close: false } as const;

interface Answer {
  readonly line: string;
  readonly fields: ReadonlyMap<string, string>;
  readonly body: string;
}

function parse(bytes: Buffer): Answer {
  const [head = '', body = ''] = bytes.toString('latin1').split('\r\n\r\n');
  const [line = '', ...lines] = head.split('\r\n');
  const fields = lines.map((text) => text.split(': ', 2) as [string, string]);
  return {
    line,
    fields: new Map(fields.map(([name, value]) => [name.toLowerCase(), value])),
    body,
  };
}

function answer(code: ErrorCode, options: Partial<typeof OPTIONS> | object = {}): Answer {
  const facts = { side: 'upstream', stage: 'response', cause: new Error('CANARY') } as const;
  const error = new ProxyError(code, 'CANARY', facts);
  return parse(writer.error(error, { ...OPTIONS, ...options }).bytes);
}

/** config.md, "Errors that we generate". */
const STATUSES: Readonly<Record<ErrorCode, number>> = {
  'request-malformed': 400,
  'request-head-too-large': 431,
  'request-timeout': 408,
  'version-unsupported': 505,
  'transfer-coding-unsupported': 501,
  'method-refused': 405,
  'expectation-failed': 417,
  misdirected: 421,
  'web-page-refused': 403,
  'client-auth-required': 401,
  'caller-token-refused': 401,
  'caller-certificate-refused': 401,
  'caller-ticket-refused': 401,
  'caller-name-refused': 403,
  'caller-check-busy': 503,
  'jwks-unavailable': 503,
  'acceptor-unavailable': 503,
  'caller-credentials-refused': 403,
  'upgrade-refused': 403,
  'no-route': 404,
  'no-principal': 403,
  'target-malformed': 400,
  'target-denied': 403,
  'loop-detected': 508,
  'client-limit': 429,
  'connection-limit': 503,
  'pool-queue-full': 503,
  'pool-wait-timeout': 504,
  'connect-failed': 502,
  'connect-timeout': 504,
  'tls-failed': 502,
  'handshake-failed': 502,
  'handshake-timeout': 504,
  'challenge-malformed': 502,
  'mutual-failed': 502,
  'no-common-scheme': 502,
  'mechanism-unavailable': 502,
  'mechanism-failed': 502,
  'kdc-timeout': 504,
  'kdc-unreachable': 502,
  'credential-missing': 502,
  'credential-expired': 502,
  'clock-skew': 502,
  'spn-unknown': 502,
  'credential-rejected': 502,
  'upstream-denied': 403,
  'guard-open': 503,
  'body-not-replayable': 503,
  'response-malformed': 502,
  'response-timeout': 504,
  'upstream-closed': 502,
  'proxy-auth-from-origin': 502,
  'parent-auth': 502,
  'connect-refused-by-parent': 502,
  'upgrade-failed': 502,
  'downstream-closed': 502,
  'shutting-down': 503,
  internal: 500,
};

describe('an answer of the daemon', () => {
  for (const code of ERROR_CODES) {
    it(`to ${code} has status ${STATUSES[code]} and says the code, nothing of the cause`, () => {
      const { line, fields, body } = answer(code);
      assert.equal(statusOf(code), STATUSES[code]);
      assert.match(line, new RegExp(`^HTTP/1\\.1 ${STATUSES[code]} [A-Z]`));
      assert.match(fields.get('proxy-status') ?? '', new RegExp(`^sidekerb; .*details="${code}"$`));
      assert.equal(fields.get('content-length'), String(Buffer.byteLength(body)));
      assert.ok(body.includes(code));
      assert.ok(![line, body, ...fields.values()].some((text) => text.includes('CANARY')));
      assert.equal(fields.get('www-authenticate'), undefined);
    });
  }

  for (const [status, field] of [
    [401, 'www-authenticate'],
    [407, 'proxy-authenticate'],
  ] as const) {
    it(`asks the caller again with ${status} where his own credentials may be at fault`, () => {
      const challenge: OwnChallenge = { status, schemes: [{ kind: 'basic', realm: 'LAB' }] };
      for (const code of ERROR_CODES) {
        const { line, fields } = answer(code, { challenge });
        const asks = [
          'client-auth-required',
          'caller-token-refused',
          'caller-certificate-refused',
          'caller-ticket-refused',
          'credential-rejected',
        ].includes(code);
        const expected = asks ? 'Basic realm="LAB", charset="UTF-8"' : undefined;
        assert.equal(fields.get(field), expected, code);
        assert.match(line, new RegExp(`^HTTP/1\\.1 ${asks ? status : STATUSES[code]} `));
      }
    });
  }

  it('asks in every scheme that the listener takes, and says of a token why it was refused', () => {
    const schemes = [{ kind: 'bearer' }, { kind: 'basic', realm: 'LAB' }] as const;
    const challenge: OwnChallenge = { status: 401, schemes };
    const lines = (code: ErrorCode): string[] => {
      const error = new ProxyError(code, 'the token "has" \\ expired\r\nX: é', {
        side: 'downstream',
        stage: 'identify',
      });
      const options = { accept: undefined, isHead: false, close: true, challenge };
      const text = createAnswerWriter(() => 0)
        .error(error, options)
        .bytes.toString('latin1');
      return text.split('\r\n').filter((line) => line.startsWith('WWW-Authenticate'));
    };
    const basic = 'WWW-Authenticate: Basic realm="LAB", charset="UTF-8"';
    assert.deepEqual(lines('client-auth-required'), [
      'WWW-Authenticate: Bearer realm="sidekerb"',
      basic,
    ]);
    const ticket = { kind: 'negotiate' } as const;
    const [first] = challengeLines({ status: 407, schemes: [ticket, ...schemes] });
    assert.equal(first, 'Proxy-Authenticate: Negotiate');
    assert.deepEqual(lines('caller-token-refused'), [
      'WWW-Authenticate: Bearer realm="sidekerb", error="invalid_token", error_description="the token has  expiredX: "',
      basic,
    ]);
  });

  it('is JSON for who accepts JSON, and text for everybody else', () => {
    for (const accept of ['application/json', 'text/html, application/problem+json;q=0.5']) {
      const { fields, body } = answer('no-route', { accept });
      assert.equal(fields.get('content-type'), 'application/json');
      const { error, status } = JSON.parse(body) as { error: string; status: number };
      assert.deepEqual({ error, status }, { error: 'no-route', status: 404 });
    }
    for (const accept of [undefined, '*/*', 'text/html', 'application/jsonp']) {
      assert.match(answer('no-route', { accept }).fields.get('content-type') ?? '', /^text\/plain/);
    }
  });

  it('to HEAD has the fields of the answer to GET and no body', () => {
    const head = answer('no-route', { isHead: true });
    assert.equal(head.body, '');
    assert.equal(
      head.fields.get('content-length'),
      answer('no-route').fields.get('content-length'),
    );
  });

  it('says Connection: close exactly when the connection ends', () => {
    assert.equal(answer('no-route').fields.get('connection'), undefined);
    assert.equal(answer('no-route', { close: true }).fields.get('connection'), 'close');
  });

  it('has Date, and may not be stored or sniffed', () => {
    const { fields } = answer('internal');
    assert.equal(fields.get('date'), 'Fri, 02 Jan 2026 03:04:05 GMT');
    assert.equal(fields.get('cache-control'), 'no-store');
    assert.equal(fields.get('x-content-type-options'), 'nosniff');
  });

  it('says when to come again in whole seconds, at least one', () => {
    const facts = { side: 'upstream', stage: 'handshake' } as const;
    for (const [ms, seconds] of [
      [1, '1'],
      [1001, '2'],
      [90_000, '90'],
    ] as const) {
      const error = new ProxyError('guard-open', 'open', { ...facts, retryAfterMs: ms });
      assert.equal(parse(writer.error(error, OPTIONS).bytes).fields.get('retry-after'), seconds);
    }
    for (const code of ['pool-queue-full', 'client-limit', 'connection-limit'] as const) {
      assert.equal(answer(code).fields.get('retry-after'), '1', code);
    }
    assert.equal(answer('no-route').fields.get('retry-after'), undefined);
  });

  it('that is a redirect keeps method and body by 308', () => {
    const { line, fields } = parse(writer.redirect('/crm/?a=1', OPTIONS).bytes);
    assert.equal(line, 'HTTP/1.1 308 Permanent Redirect');
    assert.equal(fields.get('location'), '/crm/?a=1');
  });
});
