/**
 * Where this daemon listens itself: a forward listener never dials there (config.md, Forward targets;
 * hostile row D11). A loop through another address of the same machine is seen by Via.
 */
import { networkInterfaces } from 'node:os';
import {
  addressClass,
  type IpAddress,
  isUnspecified,
  parseIpAddress,
} from '../http/forward-addresses.ts';

/** An address that a listener has. */
export interface Listening {
  /** An IP literal without brackets. */
  readonly host: string;
  readonly port: number;
}

/** Addresses of this machine's interfaces. */
export const systemAddresses = (): string[] =>
  Object.values(networkInterfaces()).flatMap((list) => (list ?? []).map(({ address }) => address));

export class OwnAddresses {
  readonly #byPort = new Map<number, IpAddress[]>();
  readonly #interfaces: () => readonly string[];

  /** `interfaces` is asked for each dial to a port of ours that is open on all addresses. */
  constructor(interfaces: () => readonly string[] = systemAddresses) {
    this.#interfaces = interfaces;
  }

  /** Adds what a listener has; before this, it is not known. */
  learn(listening: readonly Listening[]): void {
    for (const { host, port } of listening) {
      const address = parseIpAddress(host);
      if (address === undefined) continue;
      this.#byPort.set(port, [...(this.#byPort.get(port) ?? []), address]);
    }
  }

  /** What all listeners have from now on, instead of what was known. */
  replace(listening: readonly Listening[]): void {
    this.#byPort.clear();
    this.learn(listening);
  }

  /** Whether a connection to this address and port would end at one of our listeners. */
  has(address: IpAddress, port: number): boolean {
    const own = this.#byPort.get(port);
    if (own === undefined) return false;
    // The system connects an unspecified address to itself.
    if (isUnspecified(address) || own.includes(address)) return true;
    return own.some(isUnspecified) && this.#isLocal(address);
  }

  #isLocal(address: IpAddress): boolean {
    if (addressClass(address) === 'loopback') return true;
    return this.#interfaces().some((text) => parseIpAddress(text) === address);
  }
}
