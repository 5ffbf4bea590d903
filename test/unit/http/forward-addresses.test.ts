/** Addresses as numbers, their ranges, and where they lead (hostile rows D12, D13, D15). */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import {
  type AddressClass,
  addressClass,
  type IpAddress,
  isInRange,
  isUnspecified,
  parseIpAddress,
  parseIpRange,
} from '../../../src/http/forward-addresses.ts';

function address(text: string): IpAddress {
  const parsed = parseIpAddress(text);
  assert.ok(parsed !== undefined, text);
  return parsed;
}

test('every spelling of an address is one number', () => {
  for (const [one, other] of [
    ['127.0.0.1', '::ffff:127.0.0.1'],
    ['127.0.0.1', '::ffff:7f00:1'],
    ['127.0.0.1', '0:0:0:0:0:FFFF:7F00:0001'],
    ['::1', '0:0:0:0:0:0:0:1'],
    ['fd00:ec2::254', 'FD00:0EC2:0:0:0:0:0:254'],
    ['1:2::', '1:2:0:0:0:0:0:0'],
    ['1::7:8', '1:0:0:0:0:0:7:8'],
    ['64:ff9b::10.0.0.1', '64:ff9b::a00:1'],
  ] as const) {
    assert.equal(address(one), address(other), `${one} ${other}`);
  }
  assert.notEqual(address('::7f00:1'), address('127.0.0.1'));
});

test('what is no address is none', () => {
  for (const text of [
    '',
    'a',
    '1.2.3',
    '1.2.3.256',
    '01.2.3.4',
    '0x7f.0.0.1',
    '2130706433',
    '127.1',
    '[::1]',
    'fe80::1%eth0',
    '1::2::3',
    '1:2:3:4:5:6:7',
    '12345::',
    '::1/64',
    '１.1.1.1',
  ]) {
    assert.equal(parseIpAddress(text), undefined, text);
  }
});

const CLASSES: readonly (readonly [AddressClass, readonly string[]])[] = [
  ['public', ['8.8.8.8', '1.1.1.1', '172.15.0.1', '172.32.0.1', '100.63.255.255', '100.128.0.0']],
  ['public', ['192.167.1.1', '192.169.1.1', '128.0.0.1', '126.255.255.255', '223.255.255.255']],
  ['public', ['203.0.113.1', '2606:4700::1111', '64:ff9b::8.8.8.8', '2002:808:808::', 'fbff::1']],
  ['private', ['10.0.0.0', '10.255.255.255', '172.16.0.1', '172.31.255.255', '192.168.0.1']],
  ['private', ['100.64.0.1', '100.127.255.255', '198.18.0.1', 'fc00::1', 'fdff:ffff::1']],
  ['private', ['fec0::1', '::ffff:10.1.2.3', '64:ff9b::10.1.2.3', '2002:a01:203::5']],
  ['private', ['64:ff9b:1::1', '::10.1.2.3', '2001:0:1:2:3:4:f5fe:fdfc']],
  ['loopback', ['127.0.0.1', '127.255.0.9', '0.0.0.0', '0.1.2.3', '::', '::1']],
  ['loopback', ['::ffff:127.0.0.1', '::ffff:0:0', '64:ff9b::7f00:1', '2002:7f00:1::']],
  ['link-local', ['169.254.0.1', '169.254.255.255', 'fe80::1', 'febf::1', '::ffff:169.254.1.1']],
  ['metadata', ['169.254.169.254', '169.254.170.2', '100.100.100.200', 'fd00:ec2::254']],
  ['metadata', ['::ffff:169.254.169.254', '64:ff9b::169.254.169.254', '168.63.129.16']],
  ['reserved', ['224.0.0.1', '239.1.1.1', '255.255.255.255', '240.0.0.1', 'ff02::1']],
];

describe('an address leads', () => {
  for (const [kind, texts] of CLASSES) {
    test(`to ${kind}: ${texts.join(' ')}`, () => {
      for (const text of texts) assert.equal(addressClass(address(text)), kind, text);
    });
  }
});

describe('a range', () => {
  const rows: readonly (readonly [range: string, inside: string, outside: string])[] = [
    ['10.0.0.0/8', '10.255.255.255', '11.0.0.0'],
    ['10.1.2.3/8', '10.9.9.9', '9.255.255.255'],
    ['10.0.0.5', '10.0.0.5', '10.0.0.4'],
    ['0.0.0.0/0', '255.1.2.3', '::1'],
    ['::/0', '10.0.0.1', ''],
    ['fc00::/7', 'fdff::', 'fe00::'],
    ['2001:db8::/33', '2001:db8:7fff::', '2001:db8:8000::'],
    ['10.0.0.0/8', '::ffff:10.0.0.1', '::10.0.0.1'],
  ];
  for (const [range, inside, outside] of rows) {
    test(`${range} has ${inside} and not ${outside}`, () => {
      const parsed = parseIpRange(range);
      assert.ok(parsed !== undefined);
      assert.ok(isInRange(address(inside), parsed));
      if (outside !== '') assert.ok(!isInRange(address(outside), parsed));
    });
  }

  test('has bits of its family', () => {
    for (const text of ['10.0.0.0/33', '::/129', '10.0.0.0/', '10.0.0.0/8/8', '10.0.0.0/-1', '/8'])
      assert.equal(parseIpRange(text), undefined, text);
  });
});

test('the unspecified addresses are 0.0.0.0 and ::, in any spelling', () => {
  for (const text of ['0.0.0.0', '::', '::ffff:0.0.0.0']) assert.ok(isUnspecified(address(text)));
  for (const text of ['0.0.0.1', '::1', '127.0.0.1']) assert.ok(!isUnspecified(address(text)));
});
