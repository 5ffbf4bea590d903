/**
 * The part of a partition key that stands for identities (document 000 of the sources): an origin login,
 * a login at a parent, and both; of one identity, and of 1024 equal ones that were made separately, so
 * that every call is the first on its object.
 *
 * `computed` is the same digest with nothing remembered: what an object costs that identity.ts did not
 * make. Making the identity is not in the figures, but in the rows that say so.
 */

import { identityDigest } from '../../src/identity/digest.ts';
import { createNtlmIdentity, type Identity } from '../../src/identity/identity.ts';
import { Secret } from '../../src/identity/secret.ts';
import { SecretVersions } from '../../src/identity/secret-version.ts';
import type { MicroCase, MicroSubject } from './micro.ts';

const MANY = 1024;

const ntHash = new SecretVersions().secret(new Secret(Buffer.alloc(16, 7)));

const make = (principal: string): Identity =>
  createNtlmIdentity({
    principal,
    username: `CORP\\svc-${principal}`,
    workstation: 'WORKSTATION',
    ntHash,
  });

type Hop = 'origin' | 'parent';

const HOPS: Readonly<Record<string, readonly Hop[]>> = {
  ntlm: ['origin'],
  proxyTunnel: ['parent'],
  both: ['origin', 'parent'],
};

/** What a partition is found by: one map for each hop that has an identity. */
class Partitions {
  readonly #origins = new Map<string, Map<string, number>>();
  readonly #none = '';

  constructor(hops: readonly Hop[]) {
    const [origin, parent] = keysOf(hops, (hop) => make(hop));
    this.#origins.set(origin ?? this.#none, new Map([[parent ?? this.#none, 1]]));
  }

  find(origin: string | undefined, parent: string | undefined): number {
    return this.#origins.get(origin ?? this.#none)?.get(parent ?? this.#none) ?? 0;
  }
}

const keysOf = (hops: readonly Hop[], of: (hop: Hop) => Identity): (string | undefined)[] =>
  (['origin', 'parent'] as const).map((hop) =>
    hops.includes(hop) ? identityDigest(of(hop)) : undefined,
  );

/** Nobody else made it, so nothing about it is remembered. */
const forgetful = (identity: Identity): Identity => ({ ...identity });

let sink = 0;

type Pair = readonly [origin: Identity | undefined, parent: Identity | undefined];

function use(pairs: readonly Pair[], calls: number, partitions: Partitions | undefined): void {
  let found = 0;
  for (let i = 0; i < calls; i += 1) {
    const [origin, parent] = pairs[i % pairs.length] as Pair;
    const a = origin === undefined ? undefined : identityDigest(origin);
    const b = parent === undefined ? undefined : identityDigest(parent);
    found += partitions === undefined ? (a ?? b ?? '').length : partitions.find(a, b);
  }
  sink += found;
}

function subject(
  name: string,
  {
    hops,
    fresh,
    look,
    from,
  }: {
    readonly hops: readonly Hop[];
    readonly fresh: boolean;
    readonly look: boolean;
    readonly from: (identity: Identity) => Identity;
  },
): MicroSubject {
  const partitions = look ? new Partitions(hops) : undefined;
  const pair = (): Pair => {
    const of = (hop: Hop): Identity | undefined =>
      hops.includes(hop) ? from(make(hop)) : undefined;
    return [of('origin'), of('parent')];
  };
  return {
    name,
    calls: fresh ? MANY * 20 : 400_000,
    prepare: (calls) => {
      const pairs = Array.from({ length: fresh ? calls : 1 }, pair);
      return () => use(pairs, calls, partitions);
    },
  };
}

/** Document 000: ns and bytes, before and after, by row. */
const SOURCE: Readonly<Record<string, string>> = {
  'key only, ntlm, 1': '384.5 -> 7.0 ns, 560 -> 32 B',
  'key only, ntlm, 1024': '384.5 -> 479 ns, 560 -> 520 B',
  'key only, proxyTunnel, 1': '358.9 -> 9.0 ns, 552 -> 32 B',
  'key only, proxyTunnel, 1024': '368.1 -> 422.7 ns, 552 -> 512 B',
  'key only, both, 1': '1070.7 -> 14.8 ns, 1040 -> 32 B',
  'key only, both, 1024': '1112 -> 891.4 ns, 1040 -> 1000 B',
  'key and look-up, ntlm, 1': '450.0 -> 12.3 ns, 560 -> 32 B',
  'key and look-up, ntlm, 1024': '687.3 -> 759.3 ns, 560 -> 520 B',
  'key and look-up, proxyTunnel, 1': '521.3 -> 12.8 ns, 552 -> 32 B',
  'key and look-up, proxyTunnel, 1024': '489.1 -> 793.1 ns, 552 -> 512 B',
  'key and look-up, both, 1': '1277.4 -> 18.0 ns, 1040 -> 32 B',
  'key and look-up, both, 1024': '897.3 -> 879.5 ns, 1040 -> 1000 B',
};

const made: MicroCase = {
  name: 'made and digested, ntlm, 1024',
  subjects: [
    {
      name: 'sidekerb',
      calls: MANY * 20,
      prepare: (calls) => () => {
        let found = 0;
        for (let i = 0; i < calls; i += 1) found += identityDigest(make('origin')).length;
        sink += found;
      },
    },
  ],
};

export const identityDigestCases: readonly MicroCase[] = [
  ...['key only', 'key and look-up'].flatMap((what) =>
    Object.entries(HOPS).flatMap(([name, hops]) =>
      [1, MANY].map((realms): MicroCase => {
        const facts = { hops, fresh: realms > 1, look: what !== 'key only' };
        return {
          name: `${what}, ${name}, ${realms}`,
          subjects: [
            subject('sidekerb', { ...facts, from: (identity) => identity }),
            subject('computed', { ...facts, from: forgetful }),
          ],
        };
      }),
    ),
  ),
  made,
];

/** What the source document says of a row. */
export const identityDigestSource = (name: string): string => SOURCE[name] ?? '';

/** Read, so that no call is left out as useless. */
export const sunk = (): number => sink;
