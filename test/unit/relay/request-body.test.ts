/** What of a request body is kept for a second try, and for how long. */
import assert from 'node:assert/strict';
import test from 'node:test';
import { RequestBody } from '../../../src/relay/request-body.ts';
import { BufferStore } from '../../../src/transport/buffer-store.ts';
import { RequestFields } from '../../../src/wire/request-fields.ts';
import { RequestHead } from '../../../src/wire/request-head.ts';

const LIMITS = { maxBytes: 4096, maxFields: 50 };

function begun(fields: string, keepUpTo: number): RequestBody {
  const text = Buffer.from(`POST / HTTP/1.1\r\nHost: a\r\n${fields}\r\n\r\n`, 'latin1');
  const head = new RequestHead(new RequestFields([]));
  assert.ok(head.parse(text, 0, text.length, LIMITS) > 0);
  const body = new RequestBody(new BufferStore(16, 2));
  body.begin(head, keepUpTo);
  return body;
}

function take(body: RequestBody, text: string): { sent: string; next: number } {
  const bytes = Buffer.from(text, 'latin1');
  let sent = '';
  const sink = {
    put: (b: Buffer, s: number, e: number) => void (sent += b.toString('latin1', s, e)),
  };
  return { next: body.take(bytes, 0, bytes.length, sink), sent };
}

test('a counted body is kept while it fits, and taken to its last byte only', () => {
  const body = begun('Content-Length: 5', 64);
  assert.deepEqual(take(body, 'hello and more'), { next: 5, sent: 'hello' });
  assert.equal(body.done, true);
  assert.equal(body.whole, true);
  assert.equal(body.kept?.toString(), 'hello');
});

test('the last try still sends what was kept, and cannot be followed by another', () => {
  const body = begun('Content-Length: 5', 64);
  take(body, 'hello');
  body.stopKeeping();
  assert.equal(body.kept?.toString(), 'hello');
  assert.equal(body.whole, false);
});

test('a body over the limit passes but is not whole', () => {
  const body = begun('Content-Length: 10', 4);
  assert.equal(take(body, '0123').sent, '0123');
  assert.equal(body.whole, true);
  assert.equal(take(body, '456789').sent, '456789');
  assert.equal(body.whole, false);
  assert.equal(body.kept, undefined);
});

test('a chunked body is kept as it was framed for sending, without extensions', () => {
  const body = begun('Transfer-Encoding: chunked', 64);
  assert.equal(take(body, '5;x=1\r\nhello\r\n0\r\n\r\n').sent, '5\r\nhello\r\n0\r\n\r\n');
  assert.equal(body.kept?.toString(), '5\r\nhello\r\n0\r\n\r\n');
  assert.equal(begun('Transfer-Encoding: chunked', 64).whole, true);
  assert.equal(take(begun('Transfer-Encoding: chunked', 64), 'zz').next, -1);
});

test('a limit below zero keeps nothing', () => {
  const body = begun('Content-Length: 2', -1);
  take(body, 'ab');
  assert.equal(body.kept, undefined);
  assert.equal(body.whole, false);
});
