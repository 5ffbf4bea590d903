/**
 * A ready handler for the scripted upstream: the path chooses the shape of the answer, so that one
 * upstream serves a whole suite. `/malformed/NAME` sends the raw answers of `MALFORMED`.
 */

import { describeRequest } from './upstream-answers.ts';
import type { Handler, ResponseScript, UpstreamRequest } from './upstream-options.ts';

/** Text of every shaped body. */
export const SHAPE_BODY = 'The quick brown fox jumps over the lazy dog. '.repeat(100);

const COUNTED = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok';

/** Heads and bodies that break the rules, and what the rule is (hostile inputs of group E). */
export const MALFORMED = {
  'te-tab': 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\t\r\n\r\n2\r\nok\r\n0\r\n\r\n',
  'te-identity': 'HTTP/1.1 200 OK\r\nTransfer-Encoding: identity\r\n\r\nok',
  'te-gzip': 'HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n',
  'te-twice':
    'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n',
  'length-and-te':
    'HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n',
  'length-twice': 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nok',
  'length-list': 'HTTP/1.1 200 OK\r\nContent-Length: 2, 2\r\n\r\nok',
  'length-differs': 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nokk',
  'length-sign': 'HTTP/1.1 200 OK\r\nContent-Length: +2\r\n\r\nok',
  'length-empty': 'HTTP/1.1 200 OK\r\nContent-Length:\r\n\r\nok',
  'length-huge': 'HTTP/1.1 200 OK\r\nContent-Length: 18446744073709551616\r\n\r\nok',
  'chunk-hex-prefix': 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0x2\r\nok\r\n0\r\n\r\n',
  'chunk-no-crlf': 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nokXX0\r\n\r\n',
  'chunk-bare-lf': 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\nok\n0\n\n',
  'status-99': 'HTTP/1.1 99 Low\r\nContent-Length: 0\r\n\r\n',
  'status-1000': 'HTTP/1.1 1000 High\r\nContent-Length: 0\r\n\r\n',
  'status-letters': 'HTTP/1.1 2xx What\r\nContent-Length: 0\r\n\r\n',
  'version-2': 'HTTP/2.0 200 OK\r\nContent-Length: 0\r\n\r\n',
  garbage: 'this is not HTTP at all\r\n\r\n',
  'bare-lf': 'HTTP/1.1 200 OK\nContent-Length: 2\n\nok',
  'obs-fold': 'HTTP/1.1 200 OK\r\nX-Folded: a\r\n b\r\nContent-Length: 2\r\n\r\nok',
  'bare-cr': 'HTTP/1.1 200 OK\r\nX-Bare: a\rb\r\nContent-Length: 2\r\n\r\nok',
  nul: 'HTTP/1.1 200 OK\r\nX-Nul: a\0b\r\nContent-Length: 2\r\n\r\nok',
  'name-space': 'HTTP/1.1 200 OK\r\nX-Space : a\r\nContent-Length: 2\r\n\r\nok',
  'no-colon': 'HTTP/1.1 200 OK\r\nnonsense\r\nContent-Length: 2\r\n\r\nok',
  'empty-name': 'HTTP/1.1 200 OK\r\n: a\r\nContent-Length: 2\r\n\r\nok',
  'large-head': `HTTP/1.1 200 OK\r\nX-Large: ${'x'.repeat(1 << 20)}\r\nContent-Length: 2\r\n\r\nok`,
  'many-fields': `HTTP/1.1 200 OK\r\n${'X-Many: 1\r\n'.repeat(5000)}Content-Length: 2\r\n\r\nok`,
  'unasked-101': 'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: tea\r\n\r\n',
  'many-interim': `${'HTTP/1.1 100 Continue\r\n\r\n'.repeat(100)}${COUNTED}`,
  'two-answers': `${COUNTED}${COUNTED}`,
} as const satisfies Record<string, string>;

/** Answers that are cut: the body is shorter than its framing says. */
export const CUT_SHORT = {
  'body-counted': 'HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf',
  'body-chunked': 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n64\r\nhalf',
  'no-last-chunk': 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n',
  head: 'HTTP/1.1 200 OK\r\nContent-Le',
  nothing: '',
} as const satisfies Record<string, string>;

type Shape = (request: UpstreamRequest) => ResponseScript;

const SHAPES: Readonly<Record<string, Shape>> = {
  '/counted': () => ({ body: SHAPE_BODY }),
  '/empty': () => ({ body: '' }),
  '/chunked': () => ({ body: SHAPE_BODY, framing: 'chunked' }),
  '/chunked-extension': () => ({
    raw: 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;a=b;c="d e"\r\nok\r\n0\r\n\r\n',
  }),
  '/trailers': () => ({
    body: SHAPE_BODY,
    framing: 'chunked',
    fields: [['Trailer', 'X-Checksum']],
    trailers: [['X-Checksum', 'abc']],
  }),
  // RFC 9110 6.5.1: framing fields must not come as trailers.
  '/trailers-forbidden': () => ({
    body: SHAPE_BODY,
    framing: 'chunked',
    trailers: [['Content-Length', '5']],
  }),
  '/close-delimited': () => ({ body: SHAPE_BODY, framing: 'close', silent: true }),
  '/close': () => ({ body: SHAPE_BODY, after: 'fin' }),
  '/http10': () => ({ version: '1.0', body: SHAPE_BODY, framing: 'close', silent: true }),
  '/http10-keep-alive': () => ({
    version: '1.0',
    body: SHAPE_BODY,
    fields: [['Connection', 'keep-alive']],
  }),
  '/no-content': () => ({ status: 204 }),
  '/no-content-with-body': () => ({ status: 204, extra: 'body' }),
  '/not-modified': () => ({ status: 304, fields: [['Content-Length', '4500']] }),
  '/head-with-body': ({ method }) =>
    method === 'HEAD' ? { body: 'abc', extra: 'abc' } : { body: 'abc' },
  '/interim/100': () => ({ interim: [{ status: 100 }], body: SHAPE_BODY }),
  '/interim/103': () => ({
    interim: [{ status: 103, fields: [['Link', '</style.css>; rel=preload']] }],
    body: SHAPE_BODY,
  }),
  '/interim/many': () => ({
    interim: Array.from({ length: 30 }, () => ({ status: 103 })),
    body: SHAPE_BODY,
  }),
  '/websocket': () => ({ upgrade: 'websocket' }),
  '/echo': ({ field }) => ({ upgrade: field('upgrade') ?? 'echo', closeAfterBytes: Infinity }),
  '/redirect': ({ field }) => ({
    status: 302,
    fields: [['Location', `http://${field('host') ?? ''}/base/landed?x=1`]],
  }),
  '/cookie': ({ field }) => ({
    fields: [
      [
        'Set-Cookie',
        `a=1; Domain=${(field('host') ?? '').replace(/:\d+$/, '')}; Path=/base/; Secure`,
      ],
      ['Set-Cookie', 'b=2; HttpOnly; SameSite=Lax; Path=/'],
    ],
    body: 'ok',
  }),
  '/hop-by-hop': () => ({
    fields: [
      ['Connection', 'X-Hop, keep-alive'],
      ['Keep-Alive', 'timeout=5'],
      ['X-Hop', 'only here'],
      ['Proxy-Authenticate', 'Basic realm="x"'],
      ['Proxy-Connection', 'keep-alive'],
      ['X-End', 'goes on'],
    ],
    body: 'ok',
  }),
  '/extra': () => ({ body: 'ok', extra: 'HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil' }),
  '/reason': () => ({ status: 299, reason: 'My Reason', body: 'ok' }),
  '/no-reason': () => ({ raw: 'HTTP/1.1 200 \r\nContent-Length: 2\r\n\r\nok' }),
  '/status-600': () => ({ status: 600, reason: 'Beyond', body: 'ok' }),
  '/proxy-auth': () => ({
    status: 407,
    fields: [['Proxy-Authenticate', 'NTLM']],
    body: 'who are you',
  }),
};

/** Shapes by path; what has none is described as JSON. The query is not looked at. */
export const shapes: Handler = (request) => {
  const path = request.target.replace(/\?.*$/, '');
  const broken: Readonly<Record<string, string>> = MALFORMED;
  const cut: Readonly<Record<string, string>> = CUT_SHORT;
  const raw = broken[path.replace('/malformed/', '')];
  if (path.startsWith('/malformed/') && raw !== undefined) return { raw };
  const part = cut[path.replace('/cut/', '')];
  if (path.startsWith('/cut/') && part !== undefined) return { raw: part, after: 'fin' };
  return SHAPES[path]?.(request) ?? describeRequest(request);
};
