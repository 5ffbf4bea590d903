/**
 * The initiator of Kerberos inside SPNEGO: one token out, and the acceptor's token of the final answer
 * handed to the provider that made it.
 *
 * The provider frames and checks (GSS-API); here is decided what counts as a token at all, and what its
 * absence means under the configured policy.
 */
import { ProxyError } from '../../errors.ts';
import type { MutualPolicy, SecurityContext } from '../security-context.ts';
import { decodeOid, readElement, TAG } from './der.ts';
import { decodeNegToken, encodeNegTokenResp, OID } from './tokens.ts';

/** One use of a ticket, as a provider of tokens gives it. */
export interface TicketUse {
  /** A NegTokenInit with an AP-REQ. */
  readonly token: Uint8Array;
  /** Checks a NegTokenResp of the acceptor; rejects with `mutual-failed`. */
  finish(token: Uint8Array): Promise<void>;
  /** Frees what the provider holds; may be called twice. */
  dispose(): void;
}

/** An initiator with one leg; a token of it goes out once (R32). `finish` throws `mutual-failed` (R36). */
export function createSpnegoKerberosContext(
  initiation: TicketUse,
  mutual: MutualPolicy,
): SecurityContext {
  return new SpnegoKerberosContext(initiation, mutual);
}

class SpnegoKerberosContext implements SecurityContext {
  readonly scheme = 'Negotiate';
  readonly #initiation: TicketUse;
  readonly #mutual: MutualPolicy;
  #sent = false;

  constructor(initiation: TicketUse, mutual: MutualPolicy) {
    this.#initiation = initiation;
    this.#mutual = mutual;
  }

  get complete(): boolean {
    return this.#sent;
  }

  step(): Uint8Array {
    if (this.#sent) throw failure('challenge-malformed', 'a second token was asked for');
    this.#sent = true;
    return this.#initiation.token;
  }

  async finish(token: Uint8Array | undefined): Promise<void> {
    try {
      if (this.#mutual === 'off') return;
      const proof = token && proofIn(token);
      if (proof !== undefined) await this.#initiation.finish(proof);
      else if (this.#mutual === 'required') throw failure('mutual-failed', 'no final token came');
    } finally {
      this.dispose();
    }
  }

  dispose(): void {
    this.#initiation.dispose();
  }
}

/**
 * What the provider is to check: the token itself, or a bare Kerberos token put into SPNEGO. Undefined
 * when the peer only says that it is done: there is nothing in it that proves anything.
 */
function proofIn(token: Uint8Array): Uint8Array | undefined {
  if (isBareKerberos(token)) {
    return encodeNegTokenResp({ state: 'accept-completed', mech: OID.KRB5, responseToken: token });
  }
  const reply = decoded(token);
  if (reply.kind === 'init') throw failure('mutual-failed', 'the peer starts to negotiate');
  if (reply.state === 'reject') throw failure('mutual-failed', 'the peer rejects the ticket');
  if (reply.mech !== undefined && !KERBEROS.has(reply.mech)) {
    throw failure('mutual-failed', 'the peer chose a mechanism that was not offered');
  }
  return reply.responseToken === undefined && reply.mechListMic === undefined ? undefined : token;
}

const KERBEROS: ReadonlySet<string> = new Set([OID.KRB5, OID.MS_KRB5]);

/** A GSS-API token of Kerberos without SPNEGO around it. */
function isBareKerberos(token: Uint8Array): boolean {
  const outer = readElement(token, 0)?.element;
  if (outer?.tag !== TAG.APPLICATION_0) return false;
  const mech = readElement(outer.value, 0)?.element;
  return mech?.tag === TAG.OID && KERBEROS.has(decodeOid(mech.value) ?? '');
}

function decoded(token: Uint8Array): ReturnType<typeof decodeNegToken> {
  try {
    return decodeNegToken(token);
  } catch (cause) {
    throw failure('mutual-failed', 'the final token is malformed', cause);
  }
}

function failure(
  code: 'mutual-failed' | 'challenge-malformed',
  reason: string,
  cause?: unknown,
): ProxyError {
  return new ProxyError(code, `Kerberos in Negotiate: ${reason}`, {
    side: 'upstream',
    stage: 'handshake',
    cause,
  });
}
