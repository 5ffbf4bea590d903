/**
 * Which mechanisms an identity has, and the security context of the one that is used.
 *
 * The order and what is allowed come from the configuration (`auth.schemes`), what the hop offers was
 * learned; the choice itself is `auth/scheme-choice.ts`. A mechanism that fails here, before any token
 * was sent, makes room for the next one; a token that was sent never does (R29).
 */
import { BasicContext } from '../auth/basic.ts';
import { DigestContext } from '../auth/digest.ts';
import type { LoginScheme } from '../auth/handshake.ts';
import { createNtlmContext } from '../auth/ntlm/context.ts';
import { chooseMechanism, type Mechanism } from '../auth/scheme-choice.ts';
import type { MutualPolicy, SecurityContext } from '../auth/security-context.ts';
import { createSpnegoKerberosContext, type TicketUse } from '../auth/spnego/kerberos-context.ts';
import { createSpnegoNtlmContext } from '../auth/spnego/ntlm-context.ts';
import type { Clock } from '../clock.ts';
import { errorCode, ProxyError } from '../errors.ts';
import type { Challenge } from '../http/challenge.ts';
import type { Identity, KerberosIdentity, NtlmIdentity } from '../identity/identity.ts';
import type { Log } from '../log/log.ts';
import type { RequestLine } from '../upstream/login-state.ts';
import type { LegObserver } from './leg-observer.ts';

/** Gives Kerberos tokens, each for one use (R32). Rejects with what the realm or the machine said. */
export interface KerberosTokens {
  initiate(identity: KerberosIdentity, spn: string, signal: AbortSignal): Promise<TicketUse>;
}

export interface MechanismDeps {
  readonly clock: Clock;
  readonly log: Log;
  readonly random: (bytes: number) => Uint8Array;
  /** undefined: the configuration has no Kerberos principal. */
  readonly kerberos: KerberosTokens | undefined;
  /** Absent: nobody looks on. */
  readonly legs?: LegObserver | undefined;
}

/** The parts of an identity, by what they can serve. */
export interface Abilities {
  readonly ntlm: NtlmIdentity | undefined;
  readonly kerberos: KerberosIdentity | undefined;
}

export function abilitiesOf(identity: Identity): Abilities {
  switch (identity.kind) {
    case 'none':
      return { ntlm: undefined, kerberos: undefined };
    case 'ntlm':
      return { ntlm: identity, kerberos: undefined };
    case 'kerberos':
      return { ntlm: undefined, kerberos: identity };
    case 'combined':
      return { ntlm: identity.ntlm, kerberos: identity.kerberos };
    default:
      return identity satisfies never;
  }
}

export type AuthScheme = 'negotiate' | 'ntlm' | 'basic' | 'digest';

export const schemeOf = (mechanism: Mechanism): LoginScheme =>
  mechanism === 'kerberos' || mechanism === 'ntlm-in-negotiate' ? 'negotiate' : mechanism;

/**
 * Whether the hop has to ask before a login begins: what it offers decides, as more than one scheme of
 * the list could be used, or the answer is made of the question.
 */
export function needsQuestion(
  schemes: readonly AuthScheme[],
  offered: ReadonlySet<string> | undefined,
  abilities: Abilities,
): boolean {
  const usable = schemes.filter((scheme) => {
    if (scheme === 'ntlm') return abilities.ntlm !== undefined;
    return scheme === 'negotiate' || hasPassword(abilities);
  });
  if (offered === undefined && usable.length > 1) return true;
  const [first] = usable.filter((scheme) => offered?.has(scheme) !== false);
  return first === 'digest';
}

const hasPassword = ({ ntlm }: Abilities): boolean => ntlm?.password !== undefined;

/** What a context is made for. */
export interface ContextFacts {
  readonly schemes: readonly AuthScheme[];
  /** Schemes that the hop offers, lower case; undefined: not known. */
  readonly offered: ReadonlySet<string> | undefined;
  readonly abilities: Abilities;
  readonly spn: string;
  readonly bindings: Uint8Array | undefined;
  /** No token may go out without the binding. */
  readonly bindingRequired: boolean;
  readonly mutual: MutualPolicy;
  /** What the hop asked with on this connection; empty: it has not. */
  readonly challenges: readonly Challenge[];
  /** What the last token goes with. */
  readonly request: RequestLine;
  readonly signal: AbortSignal;
  /** Told of each mechanism before it is tried. */
  readonly chose?: ((mechanism: Mechanism) => void) | undefined;
}

export interface ChosenContext {
  readonly mechanism: Mechanism;
  readonly context: SecurityContext;
}

/**
 * Makes the context of the strongest mechanism that is allowed, offered and works here. Throws
 * `no-common-scheme`, or what the last mechanism failed with.
 */
export async function createContext(
  deps: MechanismDeps,
  facts: ContextFacts,
): Promise<ChosenContext> {
  const failed = new Set<Mechanism>();
  let failure: unknown;
  for (;;) {
    const { ntlm, kerberos } = facts.abilities;
    const mechanism = chooseMechanism({
      schemes: facts.schemes,
      offered: facts.offered,
      can: {
        kerberos: kerberos !== undefined,
        ntlm: ntlm !== undefined,
        password: hasPassword(facts.abilities),
      },
      failedLocally: failed,
    });
    if (mechanism === undefined) throw failure ?? noCommonScheme(facts);
    facts.chose?.(mechanism);
    try {
      return { mechanism, context: await contextOf(mechanism, deps, facts) };
    } catch (error) {
      // A refused credential never falls to another mechanism, and a caller who left starts none (R29).
      if (facts.signal.aborted || errorCode(error) === 'credential-rejected') throw error;
      failed.add(mechanism);
      failure = error;
      deps.legs?.failedHere(mechanism, error);
      deps.log.warn({ mechanism, reason: errorCode(error) }, 'a login mechanism fails here');
    }
  }
}

function noCommonScheme({ offered, schemes }: ContextFacts): ProxyError {
  const list = offered === undefined ? 'nothing' : [...offered].join(', ') || 'nothing';
  const text = `login: of ${schemes.join(', ')} the hop offers none (it offers ${list})`;
  return new ProxyError('no-common-scheme', text, { side: 'upstream', stage: 'handshake' });
}

async function contextOf(
  mechanism: Mechanism,
  deps: MechanismDeps,
  facts: ContextFacts,
): Promise<SecurityContext> {
  const { abilities, spn, bindings, mutual } = facts;
  if (mechanism === 'kerberos') {
    const identity = abilities.kerberos;
    if (identity === undefined || deps.kerberos === undefined) throw unavailable();
    // The provider's tokens carry none.
    if (facts.bindingRequired) throw unbound();
    const initiation = await deps.kerberos.initiate(identity, spn, facts.signal);
    return createSpnegoKerberosContext(initiation, mutual);
  }
  const identity = abilities.ntlm;
  if (identity === undefined) throw unavailable();
  if (mechanism === 'basic') return new BasicContext(identity);
  if (mechanism === 'digest') return new DigestContext({ ...facts, identity, random: deps.random });
  const wall = (): number => deps.clock.wall();
  const options = { identity, spn, bindings, wall, random: deps.random, mutual };
  return mechanism === 'ntlm' ? createNtlmContext(options) : createSpnegoNtlmContext(options);
}

const unavailable = (): ProxyError =>
  new ProxyError('mechanism-unavailable', 'login: the mechanism is not available', {
    side: 'internal',
    stage: 'handshake',
  });

const unbound = (): ProxyError =>
  new ProxyError('mechanism-unavailable', 'login: Kerberos has no channel binding here', {
    side: 'internal',
    stage: 'handshake',
  });
