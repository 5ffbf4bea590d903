/** Listeners of mode forward: what the file gives them, and which of their keys are built. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { ForwardListenerConfig } from '../../../src/config/config.ts';
import { faultLines, loaded } from './loading.ts';

const file = (keys: string): string => `version: 1
upstreams: { corp: { proxy: 'http://p:8080' }, web: { url: 'http://web' } }
listeners:
  - { name: egress, listen: '127.0.0.1:3128', mode: forward${keys} }
`;

function forward(keys: string): ForwardListenerConfig {
  const text = file(keys).replace(/^upstreams.*\n/m, '');
  const [listener] = loaded(text).listeners;
  assert.equal(listener?.mode, 'forward');
  return listener;
}

test('its defaults let globs reach ports 80 and 443 of public addresses, and nothing else', () => {
  const { direct, allow, hosts, timeouts, ...rest } = forward('');
  assert.deepEqual(direct, []);
  assert.deepEqual(allow, ['*:443', '*:80']);
  assert.deepEqual([rest.private, rest.resolve], [false, false]);
  assert.equal(timeouts.tunnelIdle, 3_600_000);
  // Its callers name other hosts: the loopback default of reverse listeners would refuse them all.
  assert.equal(hosts, undefined);
  assert.equal('routes' in rest, false);
});

test('what the file says stands', () => {
  const { direct, allow, hosts, timeouts, ...rest } = forward(
    ", via: [direct], direct: [localhost, 10.0.0.0/8], allow: ['*:8080'], private: true, resolve: true, hosts: a.example, timeouts: { tunnelIdle: 5s }",
  );
  assert.deepEqual([direct, allow], [['localhost', '10.0.0.0/8'], ['*:8080']]);
  assert.deepEqual([rest.private, rest.resolve, timeouts.tunnelIdle], [true, true, 5000]);
  assert.deepEqual(hosts, [{ host: 'a.example', wildcard: false, port: undefined }]);
});

describe('a fault', () => {
  const rows: readonly (readonly [keys: string, fault: RegExp])[] = [
    [', via: [nope]', /via\[0\]: there is no upstream of this name/],
    [', via: [web]', /via\[0\]: the upstream is no parent proxy: it has no proxy/],
    [', origins: [corp]', /origins\[0\]: the upstream is a parent proxy; wanted: an origin/],
    [", allow: ['*']", /allow\[0\]: wanted: HOST-GLOB:PORTS/],
    [', direct: [a b]', /direct\[0\]: wanted: a name, .suffix/],
    [', routes: { upstream: web }', /routes: routes are for mode: reverse$/],
  ];
  for (const [keys, fault] of rows) {
    test(`is told for${keys.slice(1)}`, () => {
      const lines = faultLines(file(keys)).filter((line) => line.includes('listeners'));
      assert.equal(lines.length, 1, lines.join('\n'));
      assert.match(lines[0] ?? '', fault);
    });
  }

  test('is told for modes that are not built', () => {
    for (const mode of ['socks', 'tunnel']) {
      const lines = faultLines(file('').replace('mode: forward', `mode: ${mode}`));
      assert.match(lines.join('\n'), /listeners\[0\]\.mode: not built yet/);
    }
  });
});
