/** Hostile responses (rows E that the head parser and the body scanner decide). */
import { readResponse } from '../unit/wire/support.ts';
import { runTable } from './wire-table.ts';
import type { Row, Wanted } from './wire-table.ts';

const ok = 'HTTP/1.1 200 OK\r\n';

function withFields(row: string, what: string, lines: string, wants: Wanted): Row {
  return { row, what, bytes: `${ok}${lines}\r\n`, wants };
}
function withLine(row: string, statusLine: string, wants: Wanted): Row {
  const bytes = `${statusLine}\r\nContent-Length: 0\r\n\r\n`;
  return { row, what: JSON.stringify(statusLine), bytes, wants };
}

runTable(readResponse, [
  {
    row: 'E15',
    what: 'the limit is used up and the head goes on',
    bytes: 'HTTP/1.1 200 OK\r\n',
    wants: 'too-large',
    feeding: { limits: { maxBytes: 17, maxFields: 9 } },
  },
  withFields('E1', 'chunked and a tab', 'Transfer-Encoding: chunked\t\r\n\r\n0\r\n', 'malformed'),
  withFields('E1', 'a tab and chunked', 'Transfer-Encoding:\tchunked\r\n', 'malformed'),
  ...['gzip, chunked', 'chunked, chunked', 'identity', '', 'xchunked', 'chunked ', '\vchunked'].map(
    (value) =>
      withFields(
        'E1',
        `Transfer-Encoding ${JSON.stringify(value)}`,
        `Transfer-Encoding: ${value}\r\n`,
        'malformed',
      ),
  ),
  withFields(
    'E1',
    'Transfer-Encoding twice',
    'Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n',
    'malformed',
  ),
  withFields('E1', 'exactly chunked', 'transfer-encoding: Chunked\r\n\r\n1\r\na\r\n0\r\n', {
    message: { body: 'a', forwarded: '1\r\na\r\n0\r\n\r\n' },
  }),
  {
    row: 'E1',
    what: 'Transfer-Encoding in HTTP/1.0',
    bytes: 'HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n',
    wants: 'malformed',
  },
  withFields(
    'E2',
    'both framing fields',
    'Content-Length: 3\r\nTransfer-Encoding: chunked\r\n',
    'malformed',
  ),
  withFields(
    'E2',
    'both framing fields, other order',
    'Transfer-Encoding: chunked\r\nContent-Length: 0\r\n',
    'malformed',
  ),
  withFields('E2', 'different lengths', 'Content-Length: 3\r\nContent-Length: 4\r\n', 'malformed'),
  withFields(
    'E2',
    'the same length twice',
    'Content-Length: 3\r\nContent-Length: 3\r\n',
    'malformed',
  ),
  withFields('E2', 'a list of lengths', 'Content-Length: 3, 3\r\n', 'malformed'),
  withFields(
    'E2',
    'Connection names Content-Length',
    'Connection: content-length\r\nContent-Length: 3\r\n',
    'malformed',
  ),
  withFields(
    'E2',
    'Connection names Transfer-Encoding',
    'Connection: Transfer-Encoding\r\n',
    'malformed',
  ),
  withFields('E3', 'a body shorter than its length', 'Content-Length: 3\r\n\r\n', 'more'),
  withFields('E3', 'chunks without an end', 'Transfer-Encoding: chunked\r\n\r\n3\r\nabc', 'more'),
  withFields('E4', 'bytes behind the body', 'Content-Length: 1\r\n\r\nabc', {
    message: { body: 'a', end: 39 },
  }),
  {
    row: 'E5',
    what: '204 with bytes behind it',
    bytes: 'HTTP/1.1 204 No Content\r\n\r\nabc',
    wants: { message: { body: '', end: 27 } },
  },
  {
    row: 'E6',
    what: '304 with Content-Length',
    bytes: 'HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n',
    wants: { contentLength: 5 },
  },
  {
    row: 'E7',
    what: 'an answer to HEAD',
    bytes: `${ok}Content-Length: 5\r\n\r\nabcde`,
    wants: { message: { body: '', end: 38 } },
    feeding: { toHead: true },
  },
  {
    row: 'E8',
    what: '101',
    bytes: 'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\nab',
    wants: { status: 101, upgrade: true },
  },
  {
    row: 'E9',
    what: '103',
    bytes: 'HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n',
    wants: { status: 103 },
  },
  {
    row: 'E9',
    what: '100 with content',
    bytes: 'HTTP/1.1 100 Continue\r\nContent-Length: 1\r\n\r\na',
    wants: 'malformed',
  },
  {
    row: 'E9',
    what: '103 in chunks',
    bytes: 'HTTP/1.1 103 x\r\nTransfer-Encoding: chunked\r\n\r\n',
    wants: 'malformed',
  },
  ...[
    'HTTP/1.1 99 x',
    'HTTP/1.1 1000 x',
    'HTTP/1.1 2xx x',
    'HTTP/1.1 099 x',
    'HTTP/1.1  200 x',
    'HTTP/1.1\t200 x',
    'HTTP/1.1 200\tOK',
    'garbage line here',
    'HTTP/1.1 -20 x',
    'HTTP/1.1 200 a\0b',
    'HTTP/1.1 200 a\rb',
    'HTTP/1.1 20',
    '\r\nHTTP/1.1 200 OK',
    'http/1.1 200 OK',
    ' HTTP/1.1 200 OK',
  ].map((line) => withLine('E12', line, 'malformed')),
  {
    row: 'E12',
    what: 'bare LF',
    bytes: 'HTTP/1.1 200 OK\nContent-Length: 0\n\n',
    wants: 'malformed',
  },
  { row: 'E12', what: 'garbage of three bytes', bytes: 'SSH', wants: 'malformed' },
  withLine('E12', 'HTTP/2.0 200 OK', 'version'),
  withLine('E12', 'HTTP/1.2 200 OK', 'version'),
  withLine('E13', 'HTTP/1.1 600 x', { status: 600, reason: 'x' }),
  withLine('E13', 'HTTP/1.1 999 x', { status: 999 }),
  withLine('E13', 'HTTP/1.1 299 a b\u00ff', { status: 299, reason: 'a b\u00ff' }),
  withLine('E13', 'HTTP/1.1 200 ', { status: 200, reason: '' }),
  withLine('E13', 'HTTP/1.1 200', { status: 200, reason: '' }),
  withFields('E14', 'a folded field', 'X-A: b\r\n c\r\n', 'malformed'),
  withFields('E14', 'bare CR', 'X-A: b\rc\r\n', 'malformed'),
  withFields('E14', 'NUL', 'X-A: b\0c\r\n', 'malformed'),
  withFields('E14', 'a blank before the colon', 'X-A : b\r\n', 'malformed'),
  {
    row: 'E15',
    what: 'a field of 1 KB over the limit',
    bytes: `${ok}Set-Cookie: ${'a'.repeat(1000)}\r\n\r\n`,
    wants: 'too-large',
    feeding: { limits: { maxBytes: 900, maxFields: 9 } },
  },
  {
    row: 'E15',
    what: '50 fields over the limit',
    bytes: `${ok}${'A: b\r\n'.repeat(50)}\r\n`,
    wants: 'too-many-fields',
    feeding: { limits: { maxBytes: 9000, maxFields: 49 } },
  },
  {
    row: 'E17',
    what: 'HTTP/1.0 without length',
    bytes: 'HTTP/1.0 200 OK\r\n\r\nabc',
    wants: { message: { body: 'abc', untilClose: true } },
  },
  {
    row: 'E24',
    what: 'two WWW-Authenticate',
    bytes: `${ok}WWW-Authenticate: NTLM\r\nContent-Length: 0\r\nwww-authenticate: Basic\r\n\r\n`,
    wants: {
      message: {
        known: [
          { id: 8, line: 'WWW-Authenticate: NTLM\r\n', value: 'NTLM' },
          { id: 0, line: 'Content-Length: 0\r\n', value: '0' },
          { id: 8, line: 'www-authenticate: Basic\r\n', value: 'Basic' },
        ],
      },
    },
  },
]);
