/** Ranges of addresses, as lists of the configuration have them. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { AddressList } from '../../../src/config/address-list.ts';

describe('a list of trusted callers', () => {
  const list = new AddressList(['127.0.0.1', '10.0.0.0/8', '2001:db8::/32', '::1', 'fe80::/10']);
  const rows: [address: string, listed: boolean][] = [
    ['127.0.0.1', true],
    ['127.0.0.2', false],
    ['10.255.0.1', true],
    ['::ffff:10.255.0.1', true],
    ['11.0.0.1', false],
    ['2001:db8:1::5', true],
    ['2001:db9::5', false],
    ['::1', true],
    ['fe80::1%eth0', true],
    ['unix', false],
    ['', false],
  ];
  for (const [address, listed] of rows) {
    it(`${listed ? 'has' : 'has not'} ${JSON.stringify(address)}`, () => {
      assert.equal(list.includes(address), listed);
    });
  }
});

describe('a list of all addresses', () => {
  const list = new AddressList(['0.0.0.0/0', '::/0', '0.0.0.0', '::']);
  for (const address of ['unix', '', ':', 'a:b', '1.2.3', '1.2.3.4:80', '[::1]', '@/socket']) {
    it(`has not what is no address: ${JSON.stringify(address)}`, () => {
      assert.equal(list.includes(address), false);
    });
  }
});

describe('an IPv4 address', () => {
  const spellings = ['1.2.3.4', '::ffff:1.2.3.4', '::FFFF:102:304', '0:0:0:0:0:ffff:102:304'];
  for (const entry of [...spellings, '1.2.3.0/24', '::ffff:1.2.3.0/120']) {
    it(`is in ${entry} however it is written, and no neighbour is`, () => {
      const list = new AddressList([entry]);
      for (const address of spellings) assert.equal(list.includes(address), true, address);
      for (const address of ['1.2.4.4', '::ffff:1.2.4.4', '::1.2.3.4', '64:ff9b::1.2.3.4']) {
        assert.equal(list.includes(address), false, address);
      }
    });
  }
});
