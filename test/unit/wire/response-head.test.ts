/** What a parsed response head tells, beyond what the tables of hostile responses show. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { RESPONSE_FIELD, ResponseHead } from '../../../src/wire/response-head.ts';
import { latin1, LIMITS } from './support.ts';

function parse(text: string): { head: ResponseHead; bytes: Buffer } {
  const head = new ResponseHead();
  const bytes = latin1(text);
  assert.equal(head.parse(bytes, 0, bytes.length, LIMITS), bytes.length, head.faultDetail);
  return { head, bytes };
}

test('every known field is marked with its own id, in any case', () => {
  const names: Readonly<Record<string, number>> = {
    'Content-Length': RESPONSE_FIELD.contentLength,
    Connection: RESPONSE_FIELD.connection,
    'Keep-Alive': RESPONSE_FIELD.keepAlive,
    'Proxy-Connection': RESPONSE_FIELD.proxyConnection,
    TE: RESPONSE_FIELD.te,
    Trailer: RESPONSE_FIELD.trailer,
    Upgrade: RESPONSE_FIELD.upgrade,
    'WWW-Authenticate': RESPONSE_FIELD.wwwAuthenticate,
    'Proxy-Authenticate': RESPONSE_FIELD.proxyAuthenticate,
    'Proxy-Authentication-Info': RESPONSE_FIELD.proxyAuthenticationInfo,
    Location: RESPONSE_FIELD.location,
    'Content-Location': RESPONSE_FIELD.contentLocation,
    Refresh: RESPONSE_FIELD.refresh,
    'Set-Cookie': RESPONSE_FIELD.setCookie,
    'Persistent-Auth': RESPONSE_FIELD.persistentAuth,
    'Proxy-Support': RESPONSE_FIELD.proxySupport,
    Date: RESPONSE_FIELD.date,
    Via: RESPONSE_FIELD.via,
  };
  for (const [name, id] of Object.entries(names)) {
    for (const spelling of [name, name.toUpperCase()]) {
      const { head, bytes } = parse(`HTTP/1.1 200 OK\r\nX: y\r\n${spelling}:\t1 \r\n\r\n`);
      assert.equal(head.knownCount, 1, spelling);
      assert.equal(head.first(id), 0, spelling);
      assert.equal(head.valueText(bytes, id), '1');
    }
  }
});

test('offsets name the reason phrase and the fields', () => {
  const { head, bytes } = parse('HTTP/1.0 404 Not Found\r\nX: y\r\nDate: z\r\n\r\n');
  assert.equal(bytes.toString('latin1', head.reasonStart, head.reasonEnd), 'Not Found');
  assert.equal(bytes.toString('latin1', head.fieldsStart, head.fieldsEnd), 'X: y\r\nDate: z\r\n');
  assert.equal(head.headEnd, bytes.length);
  assert.equal(head.minor, 0);
});

test('lines that Connection names are marked wherever they stand, those removed anyway keep their id', () => {
  const { head } = parse(
    'HTTP/1.1 200 OK\r\nX-A: 1\r\nConnection: x-a, keep-alive, trailer, date\r\nTrailer: x\r\nDate: z\r\n\r\n',
  );
  const { nominated, trailer, date } = RESPONSE_FIELD;
  assert.deepEqual([head.count(nominated), head.count(trailer), head.count(date)], [2, 1, 0]);
  assert.equal(head.first(nominated), 0);
  assert.equal(head.keepAlive, true);
});

test('each hop-by-hop line keeps its id when Connection names it', () => {
  const names: Readonly<Record<string, number>> = {
    'Keep-Alive': RESPONSE_FIELD.keepAlive,
    'Proxy-Connection': RESPONSE_FIELD.proxyConnection,
    TE: RESPONSE_FIELD.te,
    Trailer: RESPONSE_FIELD.trailer,
    Upgrade: RESPONSE_FIELD.upgrade,
    'Proxy-Authenticate': RESPONSE_FIELD.proxyAuthenticate,
    'Proxy-Authentication-Info': RESPONSE_FIELD.proxyAuthenticationInfo,
  };
  for (const [name, id] of Object.entries(names)) {
    const { head } = parse(
      `HTTP/1.1 200 OK\r\nConnection: x, ${name}\r\n${name}: z\r\nX: 1\r\n\r\n`,
    );
    assert.deepEqual([head.count(id), head.count(RESPONSE_FIELD.nominated)], [1, 1], name);
  }
  const { head } = parse('HTTP/1.1 200 OK\r\nConnection: x, connection\r\n\r\n');
  assert.equal(head.count(RESPONSE_FIELD.connection), 1);
});

test('nothing of one head is left in the next one', () => {
  const { head } = parse(
    'HTTP/1.1 200 OK\r\nConnection: close, upgrade\r\nTransfer-Encoding: chunked\r\n\r\n',
  );
  assert.deepEqual([head.close, head.upgrade, head.chunked], [true, true, true]);
  const next = latin1('HTTP/1.0 200\r\n\r\n');
  assert.equal(head.parse(next, 0, next.length, LIMITS), next.length);
  const { close, upgrade, chunked, contentLength, knownCount, reasonStart, reasonEnd } = head;
  assert.deepEqual(
    [close, upgrade, chunked, contentLength, knownCount],
    [false, false, false, -1, 0],
  );
  assert.equal(reasonStart, reasonEnd);
});
