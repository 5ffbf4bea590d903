/** What a parsed request head tells, beyond what the tables of hostile requests show. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { REQUEST_FIELD, RequestFields, RequestHead } from '../../../src/wire/request-head.ts';
import { fields, latin1, LIMITS, readRequest } from './support.ts';

function idsOf(lines: string, known = fields): number[] {
  const head = new RequestHead(known);
  const bytes = latin1(`GET / HTTP/1.1\r\nHost: h\r\n${lines}\r\n`);
  assert.equal(head.parse(bytes, 0, bytes.length, LIMITS), bytes.length, head.faultDetail);
  const ids = [];
  for (let at = 5; at < head.knownCount * 5; at += 5) ids.push(head.known[at] ?? -1);
  return ids;
}

test('every known field is marked with its own id, in any case', () => {
  const names: Readonly<Record<string, number>> = {
    'Content-Length': REQUEST_FIELD.contentLength,
    Connection: REQUEST_FIELD.connection,
    'Keep-Alive': REQUEST_FIELD.keepAlive,
    'Proxy-Connection': REQUEST_FIELD.proxyConnection,
    TE: REQUEST_FIELD.te,
    Trailer: REQUEST_FIELD.trailer,
    Upgrade: REQUEST_FIELD.upgrade,
    'HTTP2-Settings': REQUEST_FIELD.http2Settings,
    Authorization: REQUEST_FIELD.authorization,
    'Proxy-Authorization': REQUEST_FIELD.proxyAuthorization,
    Origin: REQUEST_FIELD.origin,
    'Sec-Fetch-Site': REQUEST_FIELD.secFetchSite,
    'Sec-Fetch-Mode': REQUEST_FIELD.secFetchMode,
    'Sec-Fetch-Dest': REQUEST_FIELD.secFetchDest,
    Via: REQUEST_FIELD.via,
    Forwarded: REQUEST_FIELD.forwarded,
    'X-Forwarded-For': REQUEST_FIELD.xForwardedFor,
    'X-Forwarded-Host': REQUEST_FIELD.xForwardedHost,
    'X-Forwarded-Proto': REQUEST_FIELD.xForwardedProto,
    'X-Forwarded-Port': REQUEST_FIELD.xForwardedOther,
    'X-Real-IP': REQUEST_FIELD.xRealIp,
    Accept: REQUEST_FIELD.accept,
    'Max-Forwards': REQUEST_FIELD.maxForwards,
    'X-Sidekerb-Admin': REQUEST_FIELD.sidekerbAdmin,
  };
  for (const [name, id] of Object.entries(names)) {
    for (const spelling of [name, name.toLowerCase(), name.toUpperCase()]) {
      assert.deepEqual(idsOf(`${spelling}: 1\r\n`), [id], spelling);
    }
  }
  assert.deepEqual(idsOf('Expect: 100-continue\r\n'), [REQUEST_FIELD.expect]);
});

test('names that are only like known names are not marked', () => {
  assert.deepEqual(
    idsOf(
      'Hos: a\r\nHostt: a\r\nContent_Length: 1\r\nX-Forwarded-: a\r\nT: a\r\nX-Forwarde: a\r\n',
    ),
    [],
  );
});

test('other spellings of forwarding fields count as forwarding fields', () => {
  const { xForwardedOther } = REQUEST_FIELD;
  assert.deepEqual(idsOf('X_Forwarded_For: a\r\nx.forwarded-port: b\r\nX-Real_IP: c\r\n'), [
    xForwardedOther,
    xForwardedOther,
    xForwardedOther,
  ]);
});

test('a custom name is matched in any case and with -, _ and . taken as equal', () => {
  const custom = new RequestFields([
    'X-Remote-User',
    'X_Forwarded_User',
    'x-remote.user',
    'X-Real-IP',
  ]);
  const user = custom.idOf('x-remote-user');
  const forwarded = custom.idOf('X-Forwarded-User');
  assert.deepEqual([user, forwarded, custom.size], [28, 29, 30]);
  assert.equal(custom.idOf('X.REMOTE_USER'), user);
  assert.equal(custom.idOf('x-real-ip'), REQUEST_FIELD.xRealIp);
  assert.equal(custom.idOf('host'), -1);
  assert.deepEqual(
    idsOf(
      'X_REMOTE.user: a\r\nX-Forwarded_User: b\r\nX-Forwarded-Users: c\r\nx.real.ip: d\r\n',
      custom,
    ),
    [user, forwarded, REQUEST_FIELD.xForwardedOther, REQUEST_FIELD.xRealIp],
  );
});

test('lines that Connection names are marked wherever they stand, in order', () => {
  const { nominated, connection, te, accept } = REQUEST_FIELD;
  assert.deepEqual(
    idsOf(
      'X-A: 1\r\nAccept: a\r\nConnection: x-a, TE, via\r\nTE: x\r\nX-A : 2\r\n'.replace(
        'X-A :',
        'x-A:',
      ) + 'X-AB: 3\r\nVia: 1\r\n',
    ),
    [nominated, accept, connection, te, nominated, nominated],
  );
});

test('a line that is removed anyway keeps its id when Connection names it', () => {
  const names = [
    'Connection',
    'Keep-Alive',
    'Proxy-Connection',
    'TE',
    'Trailer',
    'Upgrade',
    'HTTP2-Settings',
    'Proxy-Authorization',
  ];
  for (const name of names) {
    const ids = idsOf(`Connection: x, ${name}, y\r\n${name}: z\r\nX: 1\r\n`);
    assert.deepEqual(ids.slice(0, 1), [REQUEST_FIELD.connection]);
    assert.deepEqual(ids.slice(1, 2), idsOf(`${name}: z\r\n`), name);
    assert.deepEqual(ids.slice(2), [REQUEST_FIELD.nominated]);
  }
});

test('a name that Connection gave in one head means nothing in the next', () => {
  const head = new RequestHead(fields);
  const first = latin1('GET / HTTP/1.1\r\nHost: h\r\nConnection: x-a\r\nX-A: 1\r\n\r\n');
  const next = latin1('GET / HTTP/1.1\r\nHost: h\r\nX-A: 1\r\n\r\n');
  assert.equal(head.parse(first, 0, first.length, LIMITS), first.length);
  assert.equal(head.count(REQUEST_FIELD.nominated), 1);
  assert.equal(head.parse(next, 0, next.length, LIMITS), next.length);
  assert.equal(head.count(REQUEST_FIELD.nominated), 0);
});

test('counts and first lines are right after lines were marked as nominated', () => {
  const head = new RequestHead(fields);
  const bytes = latin1(
    'GET / HTTP/1.1\r\nVia: a\r\nX-A: 1\r\nHost: h\r\nX-A: 2\r\nConnection: via\r\nConnection: x-a\r\n\r\n',
  );
  assert.equal(head.parse(bytes, 0, bytes.length, LIMITS), bytes.length);
  assert.equal(head.count(REQUEST_FIELD.nominated), 3);
  assert.equal(head.first(REQUEST_FIELD.nominated), 0);
  assert.equal(head.count(REQUEST_FIELD.via), 0);
  assert.equal(head.first(REQUEST_FIELD.via), -1);
  assert.equal(head.first(REQUEST_FIELD.host), 2);
  assert.equal(head.valueText(bytes, REQUEST_FIELD.nominated), 'a');
  assert.equal(head.valueText(bytes, REQUEST_FIELD.host), 'h');
  assert.equal(head.valueText(bytes, REQUEST_FIELD.connection), 'via');
  assert.equal(head.valueText(bytes, REQUEST_FIELD.via), undefined);
});

test('Connection options are flags, from all lines together', () => {
  const outcome = readRequest(
    latin1(
      'GET / HTTP/1.1\r\nHost: h\r\nConnection: ,CLOSE , \tUpgrade\r\nConnection: keep-alive,\r\n\r\n',
    ),
  );
  assert.equal(outcome.kind, 'message');
  if (outcome.kind !== 'message') return;
  const { close, keepAlive, upgrade } = outcome.head;
  assert.deepEqual({ close, keepAlive, upgrade }, { close: true, keepAlive: true, upgrade: true });
});

test('more known lines than there was room for are all kept, and forgotten by the next parse', () => {
  const head = new RequestHead(fields);
  const many = latin1(`GET / HTTP/1.1\r\nHost: h\r\n${'Via: a\r\n'.repeat(150)}\r\n`);
  assert.equal(head.parse(many, 0, many.length, LIMITS), many.length);
  assert.equal(head.knownCount, 151);
  assert.equal(head.count(REQUEST_FIELD.via), 150);
  assert.equal(head.known[150 * 5 + 2], many.length - 2);
  const plain = latin1('GET / HTTP/1.1\r\nHost: h\r\n\r\n');
  assert.equal(head.parse(plain, 0, plain.length, LIMITS), plain.length);
  assert.equal(head.count(REQUEST_FIELD.via), 0);
  assert.equal(head.first(REQUEST_FIELD.via), -1);
});

test('nothing of a refused or longer head is left in the next one', () => {
  const head = new RequestHead(fields);
  const first = latin1(
    'HEAD / HTTP/1.0\r\nConnection: close, x\r\nExpect: 100-continue\r\nContent-Length: 7\r\n\r\n',
  );
  assert.equal(head.parse(first, 0, first.length, LIMITS), -1);
  const next = latin1('GET / HTTP/1.1\r\nHost: h\r\n\r\n');
  assert.equal(head.parse(next, 0, next.length, LIMITS), next.length);
  const { isHead, minor, close, contentLength, chunked, expectContinue, knownCount } = head;
  assert.deepEqual(
    { isHead, minor, close, contentLength, chunked, expectContinue, knownCount },
    {
      isHead: false,
      minor: 1,
      close: false,
      contentLength: -1,
      chunked: false,
      expectContinue: false,
      knownCount: 1,
    },
  );
});

test('the field limit counts the lines of one head, not of all', () => {
  const head = new RequestHead(fields);
  const bytes = latin1('GET / HTTP/1.1\r\nHost: h\r\nX: y\r\n\r\n');
  for (let i = 0; i < 3; i += 1) {
    assert.equal(head.parse(bytes, 0, bytes.length, { maxBytes: 100, maxFields: 2 }), bytes.length);
  }
});

test('a result stays what it is when more bytes come', () => {
  const head = new RequestHead(fields);
  const good = latin1('GET / HTTP/1.1\r\nHost: h\r\n\r\nGET');
  assert.equal(head.parse(good, 0, good.length, LIMITS), 27);
  assert.equal(head.resume(good, good.length), 27);
  const bad = latin1('GET\r\n');
  assert.equal(head.parse(bad, 0, 4, LIMITS), -1);
  assert.equal(head.resume(bad, bad.length), -1);
  assert.equal(head.faultDetail, 'malformed request line');
});

test('the methods that may be sent again are the idempotent ones of RFC 9110', () => {
  const facts = (method: string): unknown[] => {
    const head = new RequestHead(fields);
    const bytes = latin1(`${method} / HTTP/1.1\r\nHost: h\r\n\r\n`);
    head.parse(bytes, 0, bytes.length, LIMITS);
    return [head.method, head.safe, head.idempotent, head.isHead];
  };
  assert.deepEqual(facts('GET'), ['GET', true, true, false]);
  assert.deepEqual(facts('HEAD'), ['HEAD', true, true, true]);
  assert.deepEqual(facts('OPTIONS'), ['OPTIONS', true, true, false]);
  assert.deepEqual(facts('PUT'), ['PUT', false, true, false]);
  assert.deepEqual(facts('DELETE'), ['DELETE', false, true, false]);
  for (const method of ['POST', 'PATCH', 'LOCK', 'head', 'put', 'GETX', 'PU', 'HEADER']) {
    assert.deepEqual(facts(method), [method, false, false, false]);
  }
});
