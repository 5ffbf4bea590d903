/**
 * What every check of the whole file gets, and the words that checks share. A check returns
 * findings and changes nothing.
 */

import { parseListenAddress } from '../addresses.ts';
import type { ListenAddress } from '../config.ts';
import type { ClientEntry, Contract, ListenerEntry, UpstreamEntry } from '../contract.ts';
import type { Finding, KeyPath } from '../faults.ts';
import { nearest } from '../faults.ts';

export interface CheckContext {
  readonly contract: Contract;
  /** All names that the file gives, those of faulty entries too. */
  readonly names: {
    readonly principals: ReadonlySet<string>;
    readonly upstreams: ReadonlySet<string>;
  };
  /** True where the file itself has this key: the value is no default. */
  isWritten(path: KeyPath): boolean;
}

export type Check = (context: CheckContext) => Finding[];

/** An own entry, never a member of Object that happens to have the name. */
export function entryOf<T>(
  entries: Readonly<Record<string, T>>,
  name: string | undefined,
): T | undefined {
  return name !== undefined && Object.hasOwn(entries, name) ? entries[name] : undefined;
}

/** A finding where `name` is not among the names that the file gives. */
export function unknownName(
  what: string,
  name: string,
  at: { names: ReadonlySet<string>; path: KeyPath },
): Finding[] {
  if (at.names.has(name)) return [];
  return [
    { path: at.path, message: `there is no ${what} of this name`, hint: nearest(name, at.names) },
  ];
}

export function addressesOf(listen: readonly string[]): ListenAddress[] {
  return listen.map(parseListenAddress).filter((address) => address !== undefined);
}

/** True where all addresses are loopback or unix sockets. */
export function isLocal(listen: readonly string[]): boolean {
  return addressesOf(listen).every((address) => address.kind === 'unix' || address.loopback);
}

export type ClientWord = 'none' | 'jwt' | 'mtls' | 'negotiate' | 'basic' | 'header' | 'sspi';

/** Keys beside a place, as the basis of what is said of it. */
export function besides(
  path: KeyPath,
  keys: readonly string[],
): { readonly basis: readonly KeyPath[] } {
  return { basis: keys.map((key) => [...path, key]) };
}

/** The kind of an entry of `clients`. */
export function kindOf(client: ClientEntry): ClientWord {
  if (client === 'none') return 'none';
  const kinds: ClientWord[] = ['jwt', 'mtls', 'negotiate', 'basic', 'header', 'sspi'];
  return kinds.find((kind) => kind in client) ?? 'none';
}

/** The kinds of `clients` in order; the default where the file has none. */
export function clientKinds(listener: {
  readonly clients?: readonly ClientEntry[] | undefined;
}): ClientWord[] {
  return (listener.clients ?? ['none']).map(kindOf);
}

export function eachListener<T>(
  context: CheckContext,
  visit: (listener: ListenerEntry, path: KeyPath) => readonly T[],
): T[] {
  return context.contract.listeners.flatMap((listener, index) =>
    visit(listener, ['listeners', index]),
  );
}

export function eachUpstream<T>(
  context: CheckContext,
  visit: (upstream: UpstreamEntry, path: KeyPath, name: string) => readonly T[],
): T[] {
  return Object.entries(context.contract.upstreams).flatMap(([name, upstream]) =>
    visit(upstream, ['upstreams', name], name),
  );
}
