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
