import assert from 'node:assert/strict';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { describe, test } from 'node:test';
import { type AccessEntry, createAccessLog } from '../../../src/log/access-log.ts';

const ENTRY: AccessEntry = {
  listener: 'api',
  client: '127.0.0.1',
  method: 'GET',
  target: '/crm/a',
  status: 200,
  bytesIn: 120,
  bytesOut: 4096,
  durationMs: 1.23456,
};

function makeLog(): { writes: string[]; log: ReturnType<typeof createAccessLog> } {
  const writes: string[] = [];
  const log = createAccessLog({
    sink: { write: (lines) => writes.push(lines) },
    wall: () => Date.UTC(2026, 0, 2, 3, 4, 5, 6),
  });
  return { writes, log };
}

function lineOf(entry: Partial<AccessEntry>): Record<string, unknown> {
  const { writes, log } = makeLog();
  log.write({ ...ENTRY, ...entry });
  log.flush();
  return JSON.parse(writes.join(''));
}

describe('the access log', () => {
  test('writes one JSON line with the facts of a request', () => {
    const extra = { upstream: 'crm', lease: 'hit', reason: 'internal', principal: 'alice' };
    assert.deepEqual(lineOf(extra), {
      level: 'info',
      time: '2026-01-02T03:04:05.006Z',
      msg: 'request',
      listener: 'api',
      client: '127.0.0.1',
      method: 'GET',
      path: '/crm/a',
      status: 200,
      bytesIn: 120,
      bytesOut: 4096,
      durationMs: 1.235,
      ...extra,
    });
  });

  test('leaves out what is not known', () => {
    const keys = Object.keys(lineOf({ upstream: undefined }));
    for (const key of ['upstream', 'lease', 'reason', 'principal']) assert.ok(!keys.includes(key));
    assert.equal(lineOf({ durationMs: Number.NaN })['durationMs'], null);
  });

  test('G11 a target loses query, fragment and userinfo, because they carry tokens', () => {
    const paths: [string, string][] = [
      ['/a/b?token=secret', '/a/b'],
      ['/a#secret', '/a'],
      ['?secret', ''],
      ['/mail/user@host/x', '/mail/user@host/x'],
      ['http://user:secret@host:1/x@y?z', 'http://host:1/x@y'],
      ['http://a@secret@host', 'http://host'],
      ['user:secret@host:443', 'host:443'],
      ['host:443', 'host:443'],
      ['*', '*'],
    ];
    for (const [target, path] of paths) assert.equal(lineOf({ target })['path'], path, target);
  });

  test('G11 no character of a request ends the line or reaches a terminal as a control', () => {
    const nasty = '/"\\\r\n\u001b[31m\u0000\u007f\u009b\u2028é';
    const { writes, log } = makeLog();
    log.write({ ...ENTRY, target: nasty, method: 'A"B' });
    log.flush();
    const text = writes.join('');
    assert.doesNotMatch(text.slice(0, -1), /[\p{Cc}\p{Zl}\p{Zp}]/u);
    assert.equal(JSON.parse(text).path, nasty);
    assert.equal(JSON.parse(text).method, 'A"B');
  });

  test('hands on the lines of one turn of the event loop together', async () => {
    const { writes, log } = makeLog();
    log.write(ENTRY);
    log.write(ENTRY);
    assert.equal(writes.length, 0);
    await nextTurn();
    assert.equal(writes.length, 1);
    assert.equal(writes[0]?.split('\n').length, 3);
    log.write(ENTRY);
    await nextTurn();
    assert.equal(writes.length, 2);
  });

  test('does not gather more than about 16 KiB', () => {
    const { writes, log } = makeLog();
    for (let n = 0; n < 1000; n += 1) log.write(ENTRY);
    log.flush();
    assert.equal(writes.join('').split('\n').length, 1001);
    for (const lines of writes) assert.ok(lines.length < 17 * 1024);
  });
});
