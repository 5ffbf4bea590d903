/**
 * Who the daemon is at each hop, for one caller of a listener (config.md, "Which principal"). On
 * listeners without callers' credentials and rules it is who the upstreams say.
 */
import { ProxyError } from '../errors.ts';
import { identityDigest } from '../identity/digest.ts';
import { type Identity, type LoginIdentity, NO_IDENTITY } from '../identity/identity.ts';
import { originPrincipal, parentPrincipal } from '../inbound/principal-rules.ts';
import { exactBytes, keyedDigest } from '../identity/process-key.ts';
import type { Caller } from '../inbound/caller.ts';
import type { OwnChallenge } from '../http/own-challenge.ts';
import type { KnownCaller, ListenerCallers } from './listener-callers.ts';

/** An identity, and how a caller is asked again when it is his own and was rejected. */
export interface HopIdentity {
  readonly identity: Identity;
  readonly challenge: OwnChallenge | undefined;
}

export interface HopIdentities {
  /** Equal for callers who are the same to every hop, and to a login that one of them makes himself. */
  readonly key: string;
  /** Lives as long as the caller is known; what was made for him may not outlive it. */
  readonly self: Identity;
  /** `principal`: the parent's own. */
  atParent(principal: string | undefined): HopIdentity | ProxyError;
  /** `principal`: the upstream's own. */
  atOrigin(principal: string | undefined): HopIdentity | ProxyError;
}

/** As the upstreams say. `own`: by principal name. */
export class ConfiguredIdentities implements HopIdentities {
  readonly key = '';
  readonly self = NO_IDENTITY;
  readonly #own: ReadonlyMap<string, LoginIdentity>;

  constructor(own: ReadonlyMap<string, LoginIdentity>) {
    this.#own = own;
  }

  atParent(principal: string | undefined): HopIdentity | ProxyError {
    if (principal === undefined) return { identity: NO_IDENTITY, challenge: undefined };
    const identity = this.#own.get(principal);
    // A principal that does not exist must never mean "nobody" (fail closed).
    if (identity !== undefined) return { identity, challenge: undefined };
    const facts = { side: 'internal', stage: 'identify' } as const;
    return new ProxyError('internal', `there is no principal ${principal}`, facts);
  }

  atOrigin(principal: string | undefined): HopIdentity | ProxyError {
    return this.atParent(principal);
  }
}

/** As the rules say of one caller. */
export class CallerHopIdentities implements HopIdentities {
  readonly key: string;
  /**
   * Equal only for callers who are the same to every hop: a caller who brings a password is himself, as
   * any hop may have a principal `from: client`; others are whom the rules make the daemon.
   */
  readonly self: Identity;
  readonly #callers: ListenerCallers;
  readonly #known: KnownCaller;

  constructor(callers: ListenerCallers, known: KnownCaller) {
    this.#callers = callers;
    this.#known = known;
    this.self = callers.himself(known) ?? this.#ruled();
    this.key = keyOf(known.caller, this.self);
  }

  #ruled(): Identity {
    const { rule } = this.#known;
    if (rule.kind === 'no-rules') return NO_IDENTITY;
    const ruled = this.#identity(rule.principal);
    // An error is told at each hop. Here it is nobody of his own: what was made for callers who are
    // rightly nobody is not for one who should be somebody (fail closed).
    return ruled instanceof ProxyError ? Object.freeze({ kind: 'none' }) : ruled.identity;
  }

  atParent(principal: string | undefined): HopIdentity | ProxyError {
    const identity = this.#callers.parentIdentity(principal, this.#known);
    return this.#hop(identity, parentPrincipal(principal, this.#known.rule));
  }

  atOrigin(principal: string | undefined): HopIdentity | ProxyError {
    return this.#identity(
      originPrincipal({ route: undefined, upstream: principal }, this.#known.rule),
    );
  }

  #identity(principal: string | undefined): HopIdentity | ProxyError {
    return this.#hop(this.#callers.identity(principal, this.#known), principal);
  }

  #hop(identity: Identity | ProxyError, principal: string | undefined): HopIdentity | ProxyError {
    if (identity instanceof ProxyError) return identity;
    const isHisOwn = this.#callers.isFromClient(principal);
    return { identity, challenge: isHisOwn ? this.#callers.check.challenge : undefined };
  }
}

/**
 * A caller with a name is himself also where no principal is, and never one of another name: what he
 * logs in to by himself is his alone.
 */
function keyOf(caller: Caller, self: Identity): string {
  switch (caller.kind) {
    case 'none':
      return `none ${identityDigest(self)}`;
    case 'basic':
      return `basic ${caller.digest}`;
    case 'jwt':
      // Whom a token without a subject is about, only the whole of it says.
      return caller.subject === undefined
        ? named('jwt claims', caller.issuer, JSON.stringify(caller.claims))
        : named(caller.kind, caller.issuer, caller.subject);
    case 'negotiate':
      return named(caller.kind, caller.subject);
    case 'header':
    case 'mtls':
      return named(caller.kind, caller.user);
    default:
      return caller satisfies never;
  }
}

const named = (kind: string, ...names: readonly string[]): string =>
  `${kind} ${keyedDigest('hop caller', exactBytes(kind), ...names.map(exactBytes)).toString('hex')}`;
