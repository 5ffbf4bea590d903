/**
 * Hostile credentials through a running daemon: whoever cannot be understood is asked again, and
 * nothing of it reaches the upstream. Some of the bytes would end a line or a message elsewhere.
 */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import * as fc from 'fast-check';
import { startDaemon, type TestDaemon } from '../support/daemon.ts';
import { startScriptedUpstream } from '../support/scripted-upstream.ts';

const config = (url: string): string => `version: 1
admin: { listen: '127.0.0.1:0' }
principals: { caller: { from: client } }
upstreams: { origin: { url: '${url}', auth: { schemes: [ntlm] } } }
listeners:
  - name: api
    listen: '127.0.0.1:0'
    clients: [basic: { pass: true }]
    principal: [{ when: {}, use: caller }]
    routes: [{ upstream: origin }]
`;

async function status(daemon: TestDaemon, value: string): Promise<number> {
  await using client = await daemon.connect();
  await client.send(
    `GET /x HTTP/1.1\r\nHost: ${daemon.authority()}\r\nAuthorization: ${value}\r\n\r\n`,
  );
  return (await client.response('GET')).status;
}

const base64 = (text: string | Uint8Array): string => Buffer.from(text).toString('base64');

const rows: [title: string, value: string][] = [
  ['an empty value', ''],
  ['the scheme alone', 'Basic'],
  ['a token glued to the scheme', `Basic${base64('a:b')}`],
  ['two tokens', `Basic ${base64('a:b')} ${base64('a:b')}`],
  ['a list of credentials', `Basic ${base64('a:b')}, Basic ${base64('c:d')}`],
  ['parameters', 'Basic realm="x", user="a"'],
  ['URL-safe base64', 'Basic _-_-'],
  ['white space inside', `Basic ${base64('alice:secret').replace(/^..../, '$& ')}`],
  ['a line end in the name', `Basic ${base64('a\r\nX-Evil: 1:b')}`],
  ['a line end in the password', `Basic ${base64('a:b\nsecond line')}`],
  ['a NUL between name and colon', `Basic ${base64('alice\0:b')}`],
  ['anonymous', `Basic ${base64(':')}`],
  ['anonymous behind a domain', `Basic ${base64('.\\:x')}`],
  ['60 KiB of password', `Basic ${base64(`a:${'p'.repeat(40_000)}`)}`],
  ['a scheme with a colon', `Basic: ${base64('a:b')}`],
  ['a challenge instead of credentials', 'Basic realm="sidekerb", charset="UTF-8"'],
  ['the 8-bit form of a letter', `B\xe1sic ${base64('a:b')}`],
];

describe('hostile Basic credentials', () => {
  test('are asked again, and open no connection', async (t) => {
    await using upstream = await startScriptedUpstream();
    await using daemon = await startDaemon({ config: config(upstream.url) });
    for (const [title, value] of rows) {
      await t.test(title, async () => assert.equal(await status(daemon, value), 401));
    }
    assert.equal(upstream.journal.sockets.length, 0);
  });

  test('of any bytes get 400 or 401, never a login, never an error of the daemon', async () => {
    await using upstream = await startScriptedUpstream();
    await using daemon = await startDaemon({ config: config(upstream.url) });
    const values = fc.oneof(
      fc.uint8Array({ maxLength: 60 }).map((bytes) => Buffer.from(bytes).toString('latin1')),
      fc
        .uint8Array({ maxLength: 60 })
        .map((bytes) => `Basic ${Buffer.from(bytes).toString('latin1')}`),
      fc
        .uint8Array({ maxLength: 60 })
        // With a name and a colon it would be somebody.
        .map((bytes) => `Basic ${base64(bytes.filter((byte) => byte !== 0x3a))}`),
    );
    await fc.assert(
      fc.asyncProperty(values, async (value) => {
        const found = await status(daemon, value.replaceAll(/[\r\n]/g, ''));
        assert.ok(found === 401 || found === 400, `${found} for ${JSON.stringify(value)}`);
      }),
      { numRuns: 200 },
    );
    assert.equal(upstream.journal.sockets.length, 0);
  });

  test('names that Kerberos or a program would take for more are no more than names', async () => {
    await using upstream = await startScriptedUpstream();
    await using daemon = await startDaemon({ config: config(upstream.url) });
    const names = ['-V', '--version', '$(id)', '../../etc', 'a@b@c', 'HTTP/web@LAB', 'a;b'];
    for (const name of names) {
      assert.equal(await status(daemon, `Basic ${base64(`${name}:x`)}`), 401, name);
    }
    const claimed = upstream.journal.sockets.flatMap(({ claims }) =>
      claims.map(({ user }) => user),
    );
    assert.ok(claimed.length > 0);
    assert.deepEqual(
      upstream.journal.sockets.flatMap(({ logins }) => logins),
      [],
    );
  });
});
