/**
 * Which mechanism a login tries next (config.md, Schemes; R29).
 *
 * The configured list is the order and the limit. A mechanism is passed over when the hop does not
 * offer its scheme, the identity cannot serve it, or it failed here before a token went out. Behind one
 * whose token went out to a hop that offers its scheme, nothing follows.
 */

export type Mechanism = 'kerberos' | 'ntlm-in-negotiate' | 'ntlm' | 'digest' | 'basic';

/** As in the configuration. */
export type ConfiguredScheme = 'negotiate' | 'ntlm' | 'basic' | 'digest';

/** In order of preference within a scheme. */
const MECHANISMS: Readonly<Record<ConfiguredScheme, readonly Mechanism[]>> = {
  negotiate: ['kerberos', 'ntlm-in-negotiate'],
  ntlm: ['ntlm'],
  digest: ['digest'],
  basic: ['basic'],
};

/** What an identity has a credential for. */
export interface Abilities {
  readonly kerberos: boolean;
  readonly ntlm: boolean;
  /** The password itself. */
  readonly password: boolean;
}

const ABILITY_OF: Readonly<Record<Mechanism, keyof Abilities>> = {
  kerberos: 'kerberos',
  'ntlm-in-negotiate': 'ntlm',
  ntlm: 'ntlm',
  digest: 'password',
  basic: 'password',
};

export interface SchemeFacts {
  readonly schemes: readonly ConfiguredScheme[];
  /** Schemes the hop offers, lower case; undefined when it has not been asked. */
  readonly offered: ReadonlySet<string> | undefined;
  /** What the identity has a credential for. */
  readonly can: Abilities;
  /** Failed before a token went out (no ticket, no provider). */
  readonly failedLocally: ReadonlySet<Mechanism>;
  /** A token of it went out in this login. */
  readonly sent?: ReadonlySet<Mechanism>;
}

/** The next mechanism to try; undefined when none is left. */
export function chooseMechanism(facts: SchemeFacts): Mechanism | undefined {
  const { schemes, offered, can, failedLocally, sent } = facts;
  for (const scheme of schemes) {
    if (offered?.has(scheme) === false) continue;
    for (const mechanism of MECHANISMS[scheme]) {
      if (sent?.has(mechanism) === true) return undefined;
      if (can[ABILITY_OF[mechanism]] && !failedLocally.has(mechanism)) return mechanism;
    }
  }
  return undefined;
}
