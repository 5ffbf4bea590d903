/**
 * Which targets a forward listener lets through (config.md, Forward targets; hostile rows D11 to D14).
 *
 * 1. Our own listeners: never.
 * 2. `allow`: the first entry that covers host, port and address decides. A glob covers no address
 *    but a public one, unless the listener has `private: true`.
 * 3. `direct`: what it names is allowed on the port it names, else on 80 and 443.
 * 4. Anything else is refused.
 *
 * A name is judged before its lookup (`mayAsk`) and again with each address found (`mayDial`).
 * Lookups and dialling are done elsewhere.
 */
import { addressClass, embeddedIpv4, type IpAddress, parseIpAddress } from './forward-addresses.ts';
import {
  type AllowEntry,
  coversAddress,
  type DirectEntry,
  hasPort,
  namesHost,
  parseAllowEntry,
  parseDirectEntry,
} from './forward-entries.ts';

export interface ForwardRuleSettings {
  /** As in the file; every entry is sound. */
  readonly allow: readonly string[];
  /** As in the file; every entry is sound. */
  readonly direct: readonly string[];
  /** Globs of `allow` cover every address. */
  readonly private: boolean;
  /** Ranges of `direct` match the addresses of names, not literals only. */
  readonly resolve: boolean;
  /** Whether a listener of this daemon is reached there. */
  readonly isOwn: (address: IpAddress, port: number) => boolean;
}

const DEFAULT_PORTS: ReadonlySet<number> = new Set([80, 443]);

/** Names that lead to this machine or to its cloud, whatever a resolver says (D12). */
const LOCAL_NAMES: ReadonlySet<string> = new Set([
  'localhost',
  'localhost.localdomain',
  'ip6-localhost',
  'ip6-loopback',
  'metadata',
  'metadata.google.internal',
  'metadata.goog',
  'instance-data.ec2.internal',
]);

const isLocalName = (host: string): boolean => LOCAL_NAMES.has(host) || host.endsWith('.localhost');

/** Hosts are as `parseAuthority` gives them: lower case, no brackets, no trailing dot. */
export class ForwardRules {
  readonly #allow: readonly AllowEntry[];
  readonly #direct: readonly DirectEntry[];
  readonly #settings: ForwardRuleSettings;

  /** Throws for an entry that the file could not have. */
  constructor(settings: ForwardRuleSettings) {
    this.#settings = settings;
    this.#allow = settings.allow.map((text) => sound(parseAllowEntry(text), text));
    this.#direct = settings.direct.map((text) => sound(parseDirectEntry(text), text));
  }

  /** Whether a connection to `address`, found for `host` or equal to it, may be made. */
  mayDial(host: string, port: number, address: IpAddress): boolean {
    if (this.#settings.isOwn(address, port)) return false;
    return this.#allowed(host, port, address) ?? this.#impliedBy(host, port, address);
  }

  /** Whether any address could make the target allowed: nothing else is worth a lookup. */
  mayAsk(host: string, port: number): boolean {
    const literal = parseIpAddress(host);
    if (literal !== undefined) return this.mayDial(host, port, literal);
    for (const entry of this.#allow) {
      if (!hasPort(entry.ports, port)) continue;
      if (entry.host.kind === 'range') {
        if (!entry.denies) return true;
      } else if (namesHost(entry.host, host)) {
        if (entry.denies) return false;
        if (entry.host.kind === 'name' || this.#globCovers(host, undefined)) return true;
      }
    }
    return this.#direct.some(
      (entry) =>
        impliesPort(entry, port) &&
        (entry.host.kind === 'range' ? this.#settings.resolve : namesHost(entry.host, host)),
    );
  }

  /**
   * Whether the target may go through a parent proxy: literals, and names as they are written, since
   * the lookup is the parent's (config.md, Forward targets).
   */
  mayPass(host: string, port: number): boolean {
    const literal = parseIpAddress(host);
    if (literal !== undefined) return this.mayDial(host, port, literal);
    return this.#allowed(host, port, undefined) ?? this.#impliesName(host, port);
  }

  /**
   * Whether the no-proxy list names the target, on this port. `address`: a literal, or what a name
   * was resolved to; the latter counts with `resolve: true` only.
   */
  isDirect(host: string, port: number, address?: IpAddress): boolean {
    const literal = parseIpAddress(host);
    const judged = literal ?? (this.#settings.resolve ? address : undefined);
    return this.#direct.some(
      (entry) =>
        (entry.port === undefined || entry.port === port) &&
        (namesHost(entry.host, host) ||
          (judged !== undefined && coversAddress(entry.host, judged))),
    );
  }

  /** `resolve: true`: a range of `direct` may name the target once its addresses are known. */
  get needsAddresses(): boolean {
    return this.#settings.resolve && this.#direct.some(({ host }) => host.kind === 'range');
  }

  /** What the list says; undefined when no entry covers the target. */
  #allowed(host: string, port: number, address: IpAddress | undefined): boolean | undefined {
    for (const entry of this.#allow) {
      if (hasPort(entry.ports, port) && this.#covers(entry, host, address)) return !entry.denies;
    }
    return undefined;
  }

  #covers(entry: AllowEntry, host: string, address: IpAddress | undefined): boolean {
    if (entry.host.kind === 'range') return address !== undefined && isCovered(entry, address);
    if (!namesHost(entry.host, host)) return false;
    return entry.host.kind === 'name' || entry.denies || this.#globCovers(host, address);
  }

  #globCovers(host: string, address: IpAddress | undefined): boolean {
    if (this.#settings.private) return true;
    return !isLocalName(host) && (address === undefined || addressClass(address) === 'public');
  }

  #impliedBy(host: string, port: number, address: IpAddress): boolean {
    const kind = addressClass(address);
    if (kind === 'link-local' || kind === 'metadata' || kind === 'reserved') return false;
    const isLiteral = parseIpAddress(host) !== undefined;
    return this.#direct.some((entry) => {
      if (!impliesPort(entry, port)) return false;
      if (entry.host.kind === 'range') {
        if (!coversAddress(entry.host, address)) return false;
        // Only the name that means it may lead to loopback.
        return (
          isLiteral || (this.#settings.resolve && (kind !== 'loopback' || host === 'localhost'))
        );
      }
      if (!namesHost(entry.host, host)) return false;
      if (kind === 'loopback') return entry.host.kind === 'name' && host === 'localhost';
      // A bare `*` says nothing about where a name may lead.
      return kind === 'public' || entry.host.kind === 'name' || entry.host.glob !== '*';
    });
  }

  #impliesName(host: string, port: number): boolean {
    return this.#direct.some((entry) => {
      if (!impliesPort(entry, port) || !namesHost(entry.host, host)) return false;
      return entry.host.kind === 'name' || !isLocalName(host);
    });
  }
}

const impliesPort = (entry: DirectEntry, port: number): boolean =>
  entry.port === undefined ? DEFAULT_PORTS.has(port) : entry.port === port;

// What is forbidden is also forbidden behind a translator.
function isCovered({ host, denies }: AllowEntry, address: IpAddress): boolean {
  if (coversAddress(host, address)) return true;
  const inner = denies ? embeddedIpv4(address) : undefined;
  return inner !== undefined && coversAddress(host, inner);
}

function sound<T>(entry: T | undefined, text: string): T {
  if (entry === undefined) throw new Error(`no entry of a target list: ${text}`);
  return entry;
}
