/** Addresses, hosts, ranges and targets as the file writes them. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  collide,
  isAddressRange,
  parseHostPattern,
  parseListenAddress,
} from '../../../src/config/addresses.ts';
import { isAllowEntry, isDirectEntry } from '../../../src/config/targets.ts';
import { isSpn, parseOrigin, parseTargetUrl } from '../../../src/config/urls.ts';

test('a listener listens on an IP address with a port, on localhost, or on a socket', () => {
  assert.deepEqual(parseListenAddress('0.0.0.0:80'), {
    kind: 'tcp',
    host: '0.0.0.0',
    port: 80,
    loopback: false,
  });
  assert.deepEqual(parseListenAddress('[::1]:0'), {
    kind: 'tcp',
    host: '::1',
    port: 0,
    loopback: true,
  });
  assert.deepEqual(parseListenAddress('localhost:1'), {
    kind: 'tcp',
    host: '127.0.0.1',
    port: 1,
    loopback: true,
  });
  assert.deepEqual(parseListenAddress('unix:/run/a.sock'), { kind: 'unix', path: '/run/a.sock' });
});

test('nothing else is an address to listen on', () => {
  const wrong = [
    '',
    '80',
    ':80',
    '127.0.0.1',
    '127.0.0.1:',
    '127.0.0.1:65536',
    '127.0.0.1:+80',
    '::1:80',
    '[::1]',
    '[fe80::1%lo]:80',
    'example.com:80',
    '127.1:80',
    '*:80',
    'unix:',
    'unix:run/x',
    'unix:/run/',
    `unix:/${'x'.repeat(110)}`,
  ];
  for (const text of wrong) assert.equal(parseListenAddress(text), undefined, text);
});

test('loopback is 127.0.0.0/8 and ::1, mapped or not', () => {
  const isLoopback = (text: string): boolean => {
    const address = parseListenAddress(text);
    return address?.kind === 'tcp' && address.loopback;
  };
  for (const text of ['127.0.0.1:1', '127.9.9.9:1', '[::1]:1', '[::ffff:127.0.0.1]:1'])
    assert.ok(isLoopback(text), text);
  for (const text of ['128.0.0.1:1', '0.0.0.0:1', '[::]:1', '[::2]:1', '10.0.0.1:1'])
    assert.ok(!isLoopback(text), text);
});

test('addresses collide where the system would refuse the second', () => {
  const clash = (a: string, b: string): boolean => {
    const [first, second] = [parseListenAddress(a), parseListenAddress(b)];
    assert.ok(first !== undefined && second !== undefined);
    return collide(first, second) && collide(second, first);
  };
  assert.ok(clash('127.0.0.1:1', 'localhost:1'));
  assert.ok(clash('0.0.0.0:1', '10.0.0.1:1'));
  assert.ok(clash('[::]:1', '127.0.0.1:1'));
  assert.ok(clash('[::0001]:1', '[::1]:1'));
  assert.ok(clash('unix:/a', 'unix:/a'));
  assert.ok(!clash('127.0.0.1:1', '127.0.0.2:1'));
  assert.ok(!clash('127.0.0.1:0', '127.0.0.1:0'));
  assert.ok(!clash('0.0.0.0:1', '[::1]:1'));
  assert.ok(!clash('unix:/a', 'unix:/b'));
});

test('hosts are compared in one form', () => {
  assert.deepEqual(parseHostPattern('WWW.Example.'), {
    host: 'www.example',
    wildcard: false,
    port: undefined,
  });
  assert.deepEqual(parseHostPattern('*.example:8443'), {
    host: 'example',
    wildcard: true,
    port: 8443,
  });
  assert.deepEqual(parseHostPattern('[::0001]:80'), { host: '::1', wildcard: false, port: 80 });
  assert.deepEqual(parseHostPattern('[::1]'), { host: '::1', wildcard: false, port: undefined });
  assert.deepEqual(parseHostPattern('bücher.example'), {
    host: 'xn--bcher-kva.example',
    wildcard: false,
    port: undefined,
  });
  assert.deepEqual(parseHostPattern('under_score'), {
    host: 'under_score',
    wildcard: false,
    port: undefined,
  });
});

test('what is no host is refused', () => {
  for (const text of [
    '',
    '*',
    '*.',
    'a b',
    'a/b',
    'a@b',
    'a,b',
    '::1',
    '[::1',
    '[v1.x]',
    'a:0',
    'a:65536',
    'a:',
    '*.127.0.0.1',
    'a..b',
    '.a',
    'x'.repeat(64),
    `${'a.'.repeat(127)}ab`,
  ]) {
    assert.equal(parseHostPattern(text), undefined, text);
  }
});

test('ranges have an address and bits of its family', () => {
  for (const text of ['10.0.0.1', '10.0.0.0/8', '::/0', 'fc00::/7', '::1/128'])
    assert.ok(isAddressRange(text), text);
  for (const text of [
    '',
    '10.0.0.0/33',
    '10.0.0.0/',
    '10/8',
    '::/129',
    '10.0.0.0/8/8',
    'fe80::1%lo',
    'name',
  ]) {
    assert.ok(!isAddressRange(text), text);
  }
});

test('entries of allow have a host or a range, and ports', () => {
  for (const text of [
    '*:443',
    '*.corp:*',
    '!10.0.0.0/8:443',
    'a.b:8000-8999',
    '[fc00::]/7:443',
    '[::1]:80',
    '169.254.1.1:80',
  ]) {
    assert.ok(isAllowEntry(text), text);
  }
  for (const text of [
    '',
    '*',
    'a',
    'a:0',
    'a:9-8',
    'a:65536',
    'a:1-2-3',
    '!',
    '10.0.0.0/33:80',
    'a b:80',
    ':80',
  ]) {
    assert.ok(!isAllowEntry(text), text);
  }
});

test('entries of direct are names, suffixes, addresses and ranges', () => {
  for (const text of [
    'localhost',
    '.svc.cluster.local',
    '*.corp',
    '10.0.0.0/8',
    '::1',
    'fc00::/7',
    '[::1]:8080',
    'host:8443',
    '*',
  ]) {
    assert.ok(isDirectEntry(text), text);
  }
  for (const text of ['', '.', 'a b', 'host:0', 'host:99999', '10.0.0.0/40', 'http://a'])
    assert.ok(!isDirectEntry(text), text);
});

test('every spelling of an IPv4 address in a url is its one form', () => {
  for (const host of ['127.0.0.1', '127.1', '0x7f.1', '2130706433', '１２７.0.0.1']) {
    const target = parseTargetUrl(`http://${host}:8080/a/`);
    assert.equal('fault' in target ? target.fault : target.host, '127.0.0.1', host);
  }
});

test('an IPv6 url has its brackets in the authority only', () => {
  const target = parseTargetUrl('https://[::0001]:8443/');
  assert.deepEqual(target, {
    scheme: 'https',
    host: '::1',
    port: 8443,
    authority: '[::1]:8443',
    basePath: '',
  });
});

test('origins are compared in one form', () => {
  assert.equal(parseOrigin('HTTPS://App.Example:443'), 'https://app.example');
  assert.equal(parseOrigin('http://app.example:8080'), 'http://app.example:8080');
  for (const text of ['null', '*', 'https://a/', 'https://a/b', 'https://u@a', 'a'])
    assert.equal(parseOrigin(text), undefined, text);
});

test('an SPN is a service and a host', () => {
  for (const text of ['HTTP/crm.corp', 'HTTP/crm.corp:8443', 'http/crm@REALM.EXAMPLE'])
    assert.ok(isSpn(text), text);
  for (const text of ['', 'HTTP', 'HTTP/', '/crm', 'HTTP/a/b', 'HTTP/a b', 'HTTP/a@'])
    assert.ok(!isSpn(text), text);
});
