/** Addresses and CIDR ranges as the file lists them (`forwarded.trust`, `header.from`), to look one up. */
import { BlockList } from 'node:net';

export class AddressList {
  readonly #list = new BlockList();

  /** `entries` are valid: the schema has seen them. */
  constructor(entries: readonly string[]) {
    for (const entry of entries) {
      const [address = '', bits] = entry.split('/', 2);
      const family = familyOf(address);
      if (bits === undefined) this.#list.addAddress(address, family);
      else this.#list.addSubnet(address, Number(bits), family);
    }
  }

  /** Whether an IP literal, as sockets have it, is in one of the ranges. Anything else is in none. */
  includes(address: string): boolean {
    const [bare = ''] = address.split('%', 1);
    return this.#list.check(bare, familyOf(bare));
  }
}

const familyOf = (address: string): 'ipv4' | 'ipv6' => (address.includes(':') ? 'ipv6' : 'ipv4');
