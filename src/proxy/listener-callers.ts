/**
 * The callers of one listener: who they are, which principal they are mapped to, and as whom the daemon
 * logs in for them. For listeners that let everybody in and have no rules there is none of this.
 */
import { ProxyError } from '../errors.ts';
import { type Identity, NO_IDENTITY } from '../identity/identity.ts';
import type { Caller } from '../inbound/caller.ts';
import type { CallerCheck } from '../inbound/caller-check.ts';
import type { PrincipalRules, RuleVerdict } from '../inbound/principal-rules.ts';
import type { RequestHead } from '../wire/request-head.ts';
import type { CallerIdentities, LoginIdentity } from './caller-identities.ts';

/** A caller whom the listener knows and maps. One object as long as the connection brings the same bytes. */
export interface KnownCaller {
  readonly caller: Caller;
  /** For `originPrincipal` and `parentPrincipal` of `inbound/principal-rules.ts`. */
  readonly rule: RuleVerdict;
}

export interface ListenerCallersDeps {
  readonly check: CallerCheck;
  readonly rules: PrincipalRules;
  /** Of principals with a credential in the file, by name. */
  readonly own: ReadonlyMap<string, LoginIdentity>;
  /** Names of `from: client` principals. */
  readonly fromClient: ReadonlySet<string>;
  readonly identities: CallerIdentities;
}

export class ListenerCallers {
  readonly check: CallerCheck;
  readonly #deps: ListenerCallersDeps;
  readonly #known = new WeakMap<Caller, KnownCaller>();

  constructor(deps: ListenerCallersDeps) {
    this.#deps = deps;
    this.check = deps.check;
  }

  /** Who calls and what the rules say of him; `client-auth-required` or `no-principal`. */
  identify(head: RequestHead, buffer: Buffer, connection: object): KnownCaller | ProxyError {
    const caller = this.check.check(head, buffer, connection);
    if (caller instanceof ProxyError) return caller;
    const known = this.#known.get(caller);
    if (known !== undefined) return known;
    const rule = this.#deps.rules.judge(caller);
    if (rule instanceof ProxyError) return rule;
    const made = Object.freeze({ caller, rule });
    this.#known.set(caller, made);
    return made;
  }

  /** True where the principal of this name is the caller himself. */
  isFromClient(principal: string | undefined): boolean {
    return principal !== undefined && this.#deps.fromClient.has(principal);
  }

  /**
   * As whom to log in; `principal` undefined: as nobody. `internal` for a name that does not exist, and
   * for a principal that this caller may not have: neither may mean "nobody".
   */
  identity(principal: string | undefined, { caller }: KnownCaller): Identity | ProxyError {
    if (principal === undefined) return NO_IDENTITY;
    const { own, identities } = this.#deps;
    if (this.isFromClient(principal)) {
      if (caller.kind === 'basic') return identities.of(principal, caller);
    } else {
      const identity = own.get(principal);
      // A caller whom nobody verified gets nothing but his own (config.md, Clients).
      if (identity !== undefined && caller.kind !== 'basic') return identity;
    }
    const facts = { side: 'internal', stage: 'identify' } as const;
    return new ProxyError('internal', `${principal} is no principal of this caller`, facts);
  }
}
