/** Where the daemon listens itself (hostile row D11). */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseIpAddress } from '../../../src/http/forward-addresses.ts';
import { OwnAddresses } from '../../../src/proxy/forward-own.ts';

function has(own: OwnAddresses, text: string, port: number): boolean {
  const address = parseIpAddress(text);
  assert.ok(address !== undefined);
  return own.has(address, port);
}

test('a listener is reached at its own address and port, and at no other', () => {
  const own = new OwnAddresses(() => ['192.168.0.7', 'fe80::7%eth0']);
  assert.ok(!has(own, '127.0.0.1', 3128));
  own.learn([{ host: '127.0.0.1', port: 3128 }]);
  own.learn([
    { host: '::1', port: 3128 },
    { host: '192.168.0.7', port: 9 },
  ]);
  for (const text of ['127.0.0.1', '::ffff:127.0.0.1', '::1', '0.0.0.0', '::']) {
    assert.ok(has(own, text, 3128), text);
    assert.ok(!has(own, text, 3129), text);
  }
  for (const text of ['127.0.0.2', '192.168.0.7', '8.8.8.8'])
    assert.ok(!has(own, text, 3128), text);
  assert.ok(has(own, '192.168.0.7', 9));
});

test('a listener on all addresses is reached at every address of this machine', () => {
  for (const host of ['0.0.0.0', '::']) {
    const own = new OwnAddresses(() => ['192.168.0.7', 'fd00::7']);
    own.learn([{ host, port: 80 }]);
    for (const text of ['127.0.0.1', '127.9.9.9', '::1', '192.168.0.7', 'fd00::7', '0.0.0.0']) {
      assert.ok(has(own, text, 80), `${host} ${text}`);
    }
    for (const text of ['192.168.0.8', '8.8.8.8']) assert.ok(!has(own, text, 80), text);
  }
});
