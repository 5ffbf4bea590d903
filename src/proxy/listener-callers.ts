/**
 * The callers of one listener: who they are, which principal they are mapped to, and as whom the daemon
 * logs in for them. For listeners that let everybody in and have no rules there is none of this.
 */
import { ProxyError } from '../errors.ts';
import { type Identity, type LoginIdentity, NO_IDENTITY } from '../identity/identity.ts';
import { type Caller, isVerified } from '../inbound/caller.ts';
import type { CallerCheck, PendingCaller } from '../inbound/caller-check.ts';
import type { CallerConnection } from '../inbound/client-entry.ts';
import {
  parentPrincipal,
  type PrincipalRules,
  type RuleVerdict,
} from '../inbound/principal-rules.ts';
import type { RequestHead } from '../wire/request-head.ts';
import type { CallerIdentities } from './caller-identities.ts';

/** A caller whom the listener knows and maps. One object as long as the connection brings the same bytes. */
export interface KnownCaller {
  readonly kind: 'known';
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

  /** Who calls and what the rules say of him, why he is refused, or what has to be waited for. */
  identify(
    head: RequestHead,
    buffer: Buffer,
    connection: CallerConnection,
  ): KnownCaller | ProxyError | PendingCaller {
    const caller = this.check.check(head, buffer, connection);
    if (caller instanceof ProxyError || caller.kind === 'undecided') return caller;
    const known = this.#known.get(caller);
    if (known !== undefined) {
      // Whoever remembers as whom he logs in does not ask again, and yet he is not idle.
      this.himself(known);
      return known;
    }
    const rule = this.#deps.rules.judge(caller);
    if (rule instanceof ProxyError) return rule;
    const made = Object.freeze({ kind: 'known', caller, rule } as const);
    this.#known.set(caller, made);
    return made;
  }

  /** True where the principal of this name is the caller himself. */
  isFromClient(principal: string | undefined): boolean {
    return principal !== undefined && this.#deps.fromClient.has(principal);
  }

  /** Who a caller with a password is by any `from: client` principal; undefined: by none. */
  himself({ caller, rule }: KnownCaller): Identity | undefined {
    const { fromClient, identities } = this.#deps;
    const ruled = rule.kind === 'use' && fromClient.has(rule.principal);
    const [any] = fromClient;
    const principal = ruled ? rule.principal : any;
    if (principal === undefined || caller.kind !== 'basic') return undefined;
    return identities.of(principal, caller);
  }

  /**
   * As whom to log in; `principal` undefined: as nobody. `internal` for a name that does not exist, and
   * for a principal that this caller may not have: neither may mean "nobody".
   */
  identity(principal: string | undefined, known: KnownCaller): Identity | ProxyError {
    if (principal === undefined) return NO_IDENTITY;
    // A caller whom nobody verified gets nothing but his own (config.md, Clients).
    if (isVerified(known.caller) || this.isFromClient(principal))
      return this.#identity(principal, known);
    return refusal(principal);
  }

  /**
   * The same towards a parent proxy that has `own` as its principal, which stands before what the rules
   * say.
   */
  parentIdentity(own: string | undefined, known: KnownCaller): Identity | ProxyError {
    return this.identity(own ?? parentPrincipal(undefined, known.rule), known);
  }

  #identity(principal: string, { caller }: KnownCaller): Identity | ProxyError {
    const { own, identities } = this.#deps;
    if (!this.isFromClient(principal)) return own.get(principal) ?? refusal(principal);
    return caller.kind === 'basic' ? identities.of(principal, caller) : refusal(principal);
  }
}

const refusal = (principal: string): ProxyError =>
  new ProxyError('internal', `${principal} is no principal of this caller`, {
    side: 'internal',
    stage: 'identify',
  });
