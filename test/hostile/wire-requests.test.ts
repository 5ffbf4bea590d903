/** Hostile requests (rows B3, C and D that the head parser and the body scanner decide). */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { RequestHead } from '../../src/wire/request-head.ts';
import { fields, latin1, LIMITS, readRequest } from '../unit/wire/support.ts';
import { runTable } from './wire-table.ts';
import type { Row, Wanted } from './wire-table.ts';

const line = 'POST /a HTTP/1.1\r\nHost: h\r\n';

function withFields(row: string, what: string, lines: string, wants: Wanted): Row {
  return { row, what, bytes: `${line}${lines}\r\n`, wants };
}
function withChunks(row: string, what: string, body: string, wants: Wanted): Row {
  return { row, what, bytes: `${line}Transfer-Encoding: chunked\r\n\r\n${body}`, wants };
}
function withLine(row: string, requestLine: string, wants: Wanted, lines = 'Host: h\r\n'): Row {
  const what = requestLine.length > 60 ? `${requestLine.slice(0, 60)}...` : requestLine;
  return { row, what: JSON.stringify(what), bytes: `${requestLine}\r\n${lines}\r\n`, wants };
}
const withHost = (row: string, host: string, wants: Wanted): Row =>
  withLine(row, 'GET / HTTP/1.1', wants, `Host: ${host}\r\n`);
const hosts = (row: string, wants: Wanted, list: readonly string[]): Row[] =>
  list.map((host) => ({ ...withHost(row, host, wants), what: `Host ${JSON.stringify(host)}` }));

const nine = '9'.repeat(15);

runTable(readRequest, [
  ...['Sec-Fetch-Site', 'Sec-Fetch-Mode', 'Sec-Fetch-Dest', 'Expect', 'X-Sidekerb-Admin'].map(
    (name) => withFields('B3', `Connection names ${name}`, `Connection: ${name}\r\n`, 'malformed'),
  ),
  {
    row: 'G5',
    what: 'the limit is used up and the head goes on',
    bytes: 'GET / HTTP/1.1\r\nHost: h\r\n',
    wants: 'too-large',
    feeding: { limits: { maxBytes: 25, maxFields: 4 } },
  },
  withFields('B3', 'Connection names Host', 'Connection: close, hOst\r\n', 'malformed'),
  withFields(
    'B3',
    'Connection names Content-Length',
    'Connection: Content-Length\r\n',
    'malformed',
  ),
  withFields(
    'B3',
    'Connection names Transfer-Encoding',
    'Connection: a, transfer-encoding\r\n',
    'malformed',
  ),
  withFields('B3', 'Connection names Authorization', 'Connection: ,Authorization\r\n', 'malformed'),
  withFields(
    'B3',
    'Connection names an identity field',
    'Connection: x-remote-user\r\n',
    'malformed',
  ),
  withFields(
    'B3',
    'an identity field in another spelling',
    'Connection: X_Remote.User\r\n',
    'malformed',
  ),
  withFields('B3', 'Connection names Origin', 'Connection: origin\r\n', 'malformed'),
  withFields('B3', 'Connection is no list of tokens', 'Connection: clo se\r\n', 'malformed'),
  withFields('B3', 'Connection names other fields', 'Connection: x-a, te\r\n', { upgrade: false }),

  withFields(
    'C1',
    'Content-Length before Transfer-Encoding',
    'Content-Length: 3\r\nTransfer-Encoding: chunked\r\n',
    'malformed',
  ),
  withFields(
    'C1',
    'Transfer-Encoding before Content-Length',
    'Transfer-Encoding: chunked\r\nContent-Length: 3\r\n',
    'malformed',
  ),
  withFields(
    'C1',
    'Transfer-Encoding and a length of zero',
    'Transfer-Encoding: chunked\r\nContent-Length: 0\r\n',
    'malformed',
  ),
  withFields(
    'C2',
    'two equal Content-Length',
    'Content-Length: 3\r\nContent-Length: 3\r\n',
    'malformed',
  ),
  withFields(
    'C2',
    'two different Content-Length',
    'Content-Length: 3\r\nContent-Length: 4\r\n',
    'malformed',
  ),
  withFields('C2', 'a list in Content-Length', 'Content-Length: 3, 3\r\n', 'malformed'),
  ...[
    '+3',
    '-1',
    '0x3',
    '',
    '18446744073709551616',
    '3 4',
    '3.0',
    '3;',
    '1e1',
    `${nine}9`,
    '\u00b2',
  ].map((value) =>
    withFields(
      'C3',
      `Content-Length ${JSON.stringify(value)}`,
      `Content-Length: ${value}\r\n`,
      'malformed',
    ),
  ),
  withFields('C3', 'leading blanks and zeros', 'Content-Length:   003\r\n\r\nabc', {
    message: { body: 'abc' },
  }),
  withFields('C3', 'fifteen digits', `Content-Length: ${nine}\r\n`, 'more'),
  ...[
    'chunked, identity',
    'xchunked',
    'identity',
    'chunked, chunked',
    'chunked;q=1',
    '"chunked"',
  ].map((value) =>
    withFields(
      'C4',
      `Transfer-Encoding ${value}`,
      `Transfer-Encoding: ${value}\r\n`,
      'transfer-coding',
    ),
  ),
  withFields(
    'C4',
    'vertical tab before the coding',
    'Transfer-Encoding: \vchunked\r\n',
    'malformed',
  ),
  withFields(
    'C4',
    'vertical tab behind the coding',
    'Transfer-Encoding: chunked\v\r\n',
    'malformed',
  ),
  withFields(
    'C4',
    'Transfer-Encoding twice',
    'Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n',
    'malformed',
  ),
  withFields(
    'C4',
    'Transfer-Encoding twice, one unknown',
    'Transfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n',
    'transfer-coding',
  ),
  withFields('C4', 'empty Transfer-Encoding', 'Transfer-Encoding:\r\n', 'malformed'),
  withFields('C5', 'gzip, chunked', 'Transfer-Encoding: gzip, chunked\r\n', 'transfer-coding'),
  withLine('C6', 'POST / HTTP/1.0', 'malformed', 'Transfer-Encoding: chunked\r\n'),
  withFields('C7', 'chunked and a tab', 'Transfer-Encoding: chunked\t\r\n', 'malformed'),
  withFields('C7', 'a tab and chunked', 'Transfer-Encoding:\tchunked\r\n', 'malformed'),
  withFields('C7', 'chunked and a blank', 'Transfer-Encoding: chunked \r\n', 'malformed'),
  withFields('C7', 'any case', 'Transfer-Encoding: cHUNKED\r\n\r\n0\r\n', { chunked: true }),
  withFields('C8', 'a blank before the colon', 'Transfer-Encoding : chunked\r\n', 'malformed'),
  withFields('C8', 'a tab before the colon', 'Content-Length\t: 3\r\n', 'malformed'),

  withChunks('C9', 'a short extension is dropped', '3;a=b;c="d"\r\nabc\r\n0;x\r\n\r\n', {
    message: { body: 'abc', forwarded: '3\r\nabc\r\n0\r\n\r\n' },
  }),
  withChunks('C10', 'an extension of 20 KB', `3;${'a'.repeat(20_000)}\r\nabc\r\n0\r\n\r\n`, 'body'),
  withChunks('C10', 'an extension of 1,024 bytes', `3;${'a'.repeat(1024)}\r\nabc\r\n0\r\n\r\n`, {
    message: { body: 'abc' },
  }),
  withChunks(
    'C10',
    'many extensions, 17 KB in all',
    `1;${'a'.repeat(999)}\r\nb\r\n`.repeat(17),
    'body',
  ),
  withChunks('C10', 'a control byte in an extension', '3;a\0\r\nabc\r\n0\r\n\r\n', 'body'),
  ...[
    '0x3',
    '-3',
    '+3',
    '',
    ' 3',
    '3 ',
    '3 ;a',
    '3\t',
    'g',
    '0000000000003',
    '10000000000000003',
  ].map((size) =>
    withChunks('C11', `chunk size ${JSON.stringify(size)}`, `${size}\r\nabc\r\n0\r\n\r\n`, 'body'),
  ),
  withChunks('C11', 'twelve digits', '000000000003\r\nabc\r\n0\r\n\r\n', {
    message: { body: 'abc' },
  }),
  withChunks('C12', 'bare LF behind the size', '3\nabc\r\n0\r\n\r\n', 'body'),
  withChunks('C12', 'bare LF behind the data', '3\r\nabc\n0\r\n\r\n', 'body'),
  withChunks('C12', 'no CRLF behind the data', '3\r\nabc0\r\n\r\n', 'body'),
  withChunks('C12', 'bare CR in an extension', '3;a\rb\r\nabc\r\n0\r\n\r\n', 'body'),
  withChunks('C12', 'bare LF in an extension', '3;a\nabc\r\n0\r\n\r\n', 'body'),
  withChunks('C12', 'bare LF at the end', '3\r\nabc\r\n0\r\n\n', 'body'),
  withChunks('C13', 'trailers are dropped', '3\r\nabc\r\n0\r\nX-T: 1\r\nY:\r\n\r\n', {
    message: { body: 'abc', forwarded: '3\r\nabc\r\n0\r\n\r\n' },
  }),
  ...[
    'Content-Length: 3',
    'host: x',
    'AUTHORIZATION: x',
    'Proxy-Authorization: x',
    'Transfer-Encoding: chunked',
    'Connection: x',
  ].map((trailer) =>
    withChunks('C13', `trailer ${trailer}`, `0\r\nX: y\r\n${trailer}\r\n\r\n`, 'body'),
  ),
  ...['X T: 1', ': 1', 'X', 'X : 1', 'X: a\0', 'X: a\rb', ' X: fold'].map((trailer) =>
    withChunks(
      'C13',
      `malformed trailer ${JSON.stringify(trailer)}`,
      `0\r\n${trailer}\r\n\r\n`,
      'body',
    ),
  ),
  withChunks(
    'C13',
    'trailers over 8 KiB',
    `0\r\n${`X: ${'a'.repeat(1000)}\r\n`.repeat(9)}\r\n`,
    'body',
  ),

  withFields('C14', 'a folded field', 'X-A: b\r\n c\r\n', 'malformed'),
  withFields('C14', 'a fold with a tab', 'X-A: b\r\n\tc\r\n', 'malformed'),
  withLine('C14', 'GET / HTTP/1.1', 'malformed', ' Host: h\r\n'),
  ...[
    'X-A: b\nX-C: d',
    'X-A: b\rc',
    'X-A: b\0c',
    ': v',
    'X A: v',
    'X-A',
    'X-A\0: v',
    'X-A: \x7f',
    'X-\u00e9: v',
    'X-A: \x1b[0m',
    '\rX: y',
    '\nX: y',
    'X(a): v',
  ].map((text) =>
    withFields('C15', `field line ${JSON.stringify(text)}`, `${text}\r\n`, 'malformed'),
  ),
  withLine('C15', 'GET / HTTP/1.1', 'malformed', 'Host: h\n'),
  {
    row: 'C15',
    what: 'bare LF behind the request line',
    bytes: 'GET / HTTP/1.1\nHost: h\r\n\r\n',
    wants: 'malformed',
  },
  {
    row: 'C15',
    what: 'bare LF as empty line',
    bytes: 'GET / HTTP/1.1\r\nHost: h\r\n\n',
    wants: 'malformed',
  },
  withFields('C15', 'tab, obs-text and blanks inside a value', 'X-A:\ta\tb\u00ff c \t\r\n', {
    chunked: false,
  }),
  withLine('C16', '\r\n\r\n\r\n\r\nGET / HTTP/1.1', { headStart: 8, method: 'GET' }),
  withLine('C16', '\r\n\r\n\r\n\r\n\r\nGET / HTTP/1.1', 'malformed'),
  withLine('C16', '\nGET / HTTP/1.1', 'malformed'),
  withLine('C16', '\r\rGET / HTTP/1.1', 'malformed'),
  ...['GET', 'DELETE', 'OPTIONS'].map((method) => ({
    row: 'C17',
    what: `${method} with a body`,
    bytes: `${method} / HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nab`,
    wants: { message: { body: 'ab' } },
  })),
  withLine('C17', 'HEAD / HTTP/1.1', 'malformed', 'Host: h\r\nContent-Length: 1\r\n'),
  withLine('C17', 'HEAD / HTTP/1.1', 'malformed', 'Host: h\r\nTransfer-Encoding: chunked\r\n'),
  withLine(
    'C17',
    'HEAD / HTTP/1.1',
    { isHead: true, safe: true },
    'Host: h\r\nContent-Length: 0\r\n',
  ),
  withFields('C19', 'Expect: 100-continue', 'Expect: 100-Continue\r\n', { expectContinue: true }),
  withFields('C19', 'another expectation', 'Expect: x\r\n', 'expectation'),
  withFields('C19', 'two expectations', 'Expect: 100-continue\r\nExpect: y\r\n', 'expectation'),
  withLine('C19', 'POST / HTTP/1.0', { expectContinue: false }, 'Expect: 100-continue\r\n'),
  ...['HTTP/2.0', 'HTTP/1.2', 'HTTP/0.9', 'HTTP/3.1', 'HTTP/9.9'].map((version) =>
    withLine('C20', `GET / ${version}`, 'version'),
  ),
  ...[
    'HTTP/1',
    'HTTP/1.10',
    'HTTP/11.1',
    'http/1.1',
    'HTTP/1.1 ',
    ' HTTP/1.1',
    'HTTP/1,1',
    'ICY/1.1',
    'HTTP/-1.1',
    'HTTP/1.\u00b2',
  ].map((version) => withLine('C20', `GET / ${version}`, 'malformed')),
  withLine('C20', 'GET /', 'malformed'),
  {
    row: 'C20',
    what: 'the fault is seen at the end of the line',
    bytes: 'GET / HTTP/2.0\r\n',
    wants: 'version',
  },
  {
    row: 'C21',
    what: 'the HTTP/2 preface',
    bytes: 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n',
    wants: 'malformed',
  },
  ...['get', 'PROPFIND', 'X!#$%', 'TRACE', 'Get', 'M-SEARCH', 'A'.repeat(64)].map((method) =>
    withLine('C22', `${method} /a HTTP/1.1`, {
      method,
      methodText: method,
      safe: false,
      idempotent: false,
    }),
  ),
  ...['A'.repeat(65), 'G\u00e9T', 'G(T', '', 'GET\t', ' GET'].map((method) =>
    withLine('C22', `${method} / HTTP/1.1`, 'malformed'),
  ),
  withLine('C22', 'GET  / HTTP/1.1', 'malformed'),
  withLine('C22', 'GET /  HTTP/1.1', 'malformed'),
  withLine('C22', 'GET\t/ HTTP/1.1', 'malformed'),
  withFields(
    'C25',
    'h2c is a flag',
    'Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: a\r\n',
    { upgrade: true },
  ),
  withFields('C25', 'websocket without Connection', 'Upgrade: websocket\r\n', { upgrade: false }),

  withLine('D1', 'GET / HTTP/1.1', 'malformed', 'X: y\r\n'),
  withLine('D1', 'GET / HTTP/1.1', 'malformed', ''),
  withLine('D1', 'GET / HTTP/1.0', { minor: 0 }, ''),
  withLine('D2', 'GET / HTTP/1.1', 'malformed', 'Host: h\r\nHost: h\r\n'),
  withLine('D2', 'GET / HTTP/1.0', 'malformed', 'Host: h\r\nhost: i\r\n'),
  ...hosts('D3', 'malformed', [
    'a, b',
    'a,b',
    'a@b',
    'a/b',
    '',
    ' ',
    'a b',
    'a:0',
    'a:65536',
    'a:+80',
    'a:',
    ':80',
    'a:b',
    'a:80:80',
    'a?b',
    'a#b',
    'a\\b',
    'a%41',
    '[::1',
    '::1',
    '[::1]80',
    '[::1%25eth0]',
    '[v1.x]',
    'a..b',
    '.a',
    'a:080000',
    '\u00e9',
  ]),
  ...hosts('D3', { targetForm: 'origin' }, [
    'a',
    'a.b:80',
    '127.0.0.1:65535',
    '[::1]',
    '[::1]:8080',
    'a_b',
    'a.',
    'A-b.C',
  ]),
  ...hosts('D13', 'malformed', [
    '2130706433',
    '0x7f.1',
    '0177.0.0.1',
    '127.1',
    '1.2.3.4.5',
    '256.1.1.1',
    'a.1',
    '1.2.3.04',
    '0x',
  ]),
  ...[
    'ftp://h/',
    'file:///a',
    'gopher://h',
    'http:/h/',
    'http:',
    'http://',
    'http:///a',
    'h',
    'h:80',
    'HTTPX://h/',
    'javascript:a',
  ].map((target) => withLine('D5', `GET ${target} HTTP/1.1`, 'malformed')),
  withLine('D5', 'GET HTTP://a.b:81/x?y HTTP/1.1', {
    targetForm: 'absolute',
    path: 'HTTP://a.b:81/x',
  }),
  withLine('D5', 'GET https://a?y HTTP/1.1', { targetForm: 'absolute', path: 'https://a' }),
  withLine('D6', 'GET http://u:p@h/ HTTP/1.1', 'malformed'),
  withLine('D6', 'GET http://u@h/ HTTP/1.1', 'malformed'),
  withLine('D7', 'GET /1#x HTTP/1.1', 'malformed'),
  withLine('D7', 'GET /1?a#x HTTP/1.1', 'malformed'),
  withLine('D8', 'GET * HTTP/1.1', 'malformed'),
  withLine('D8', 'OPTIONS * HTTP/1.1', { targetForm: 'asterisk', safe: true }),
  withLine('D8', 'OPTIONS ** HTTP/1.1', 'malformed'),
  withLine('D9', 'GET //host/x?a?b HTTP/1.1', {
    targetForm: 'origin',
    path: '//host/x',
    target: '//host/x?a?b',
  }),
  withLine('D9', 'GET /\u00e9 HTTP/1.1', 'malformed'),
  withLine('D9', 'GET /a\0 HTTP/1.1', 'malformed'),
  ...[
    'h',
    'h:443/a',
    'u@h:443',
    '::1:443',
    'h:0',
    'h:99999',
    'http://h:443',
    '/',
    'h:',
    '[fe80::1%25eth0]:443',
  ].map((target) => withLine('D10', `CONNECT ${target} HTTP/1.1`, 'malformed')),
  withLine('D10', 'CONNECT [::1]:443 HTTP/1.1', { targetForm: 'authority' }),
  withLine('D10', 'CONNECT h:443 HTTP/1.1', { targetForm: 'authority', target: 'h:443' }),
  withLine('D10', 'CONNECT h:443 HTTP/1.1', 'malformed', 'Host: h\r\nContent-Length: 1\r\n'),

  withFields(
    'A20',
    'two Authorization fields',
    'Authorization: a\r\nauthorization: b\r\n',
    'malformed',
  ),
  {
    row: 'G5',
    what: 'more fields than the limit',
    bytes: `${line}${'A: b\r\n'.repeat(4)}\r\n`,
    wants: 'too-many-fields',
    feeding: { limits: { maxBytes: 1000, maxFields: 4 } },
  },
  {
    row: 'G5',
    what: 'as many fields as the limit',
    bytes: `${line}${'A: b\r\n'.repeat(3)}\r\n`,
    wants: { chunked: false },
    feeding: { limits: { maxBytes: 1000, maxFields: 4 } },
  },
  ...['GET /', 'GET /?', 'G', 'GET / HTTP/1.1\r\nHost: h\r\nX: ', 'GET / HTTP/1.1\r\nX'].map(
    (start) => ({
      row: 'G5',
      what: `more bytes than the limit behind ${JSON.stringify(start)}`,
      bytes: start.padEnd(200, 'a'),
      wants: start === 'G' ? 'malformed' : 'too-large',
      feeding: { limits: { maxBytes: 100, maxFields: 4 } },
    }),
  ),
  {
    row: 'G5',
    what: 'a head of exactly the limit',
    bytes: 'GET / HTTP/1.1\r\nHost: h\r\n\r\nmore',
    wants: { headEnd: 27 },
    feeding: { limits: { maxBytes: 27, maxFields: 1 } },
  },
  {
    row: 'G5',
    what: 'a head one byte over the limit',
    bytes: 'GET / HTTP/1.1\r\nHost: h\r\n\r\n',
    wants: 'too-large',
    feeding: { limits: { maxBytes: 26, maxFields: 1 } },
  },
]);

test('C23: pipelined requests are found one after the other, each with its own end', () => {
  const one = 'GET /1 HTTP/1.1\r\nHost: h\r\nX-Remote-User: a\r\n\r\n';
  const two = '\r\nPOST /2 HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\n';
  const three = 'GET /3 HTTP/1.0\r\n\r\n';
  const buffer = latin1(`${one}${two}ab${three}`);
  const head = new RequestHead(fields);
  const first = head.parse(buffer, 0, buffer.length, LIMITS);
  assert.equal(first, one.length);
  assert.equal(head.count(fields.idOf('x-remote-user')), 1);
  const second = head.parse(buffer, first, buffer.length, LIMITS);
  assert.equal(second, first + two.length);
  assert.equal(head.contentLength, 2);
  assert.equal(head.count(fields.idOf('x-remote-user')), 0);
  const third = head.parse(buffer, second + head.contentLength, buffer.length, LIMITS);
  assert.equal(third, buffer.length);
  assert.equal(head.contentLength, -1);
});
