/**
 * Basic towards an upstream or a parent proxy (RFC 7617): the credentials are the password itself, the
 * same in each request. Only where the configuration names it (config.md, Schemes).
 */
import { ProxyError } from '../errors.ts';
import type { NtlmIdentity } from '../identity/identity.ts';
import type { SecurityContext } from './security-context.ts';

/** The name is `DOMAIN\user` where there is a domain, in UTF-8 as the password is. */
export class BasicContext implements SecurityContext {
  readonly scheme = 'Basic';
  readonly complete = true;
  readonly #identity: NtlmIdentity;

  constructor(identity: NtlmIdentity) {
    this.#identity = identity;
  }

  /** Throws `mechanism-unavailable` without a password, and for a name that has a colon. */
  step(): Uint8Array {
    const { domain, user, password } = this.#identity;
    const name = domain === '' ? user : `${domain}\\${user}`;
    // RFC 7617 2: the first colon ends the name.
    if (password === undefined || name.includes(':')) {
      const facts = { side: 'internal', stage: 'handshake' } as const;
      throw new ProxyError('mechanism-unavailable', 'login: no name and password for Basic', facts);
    }
    return Buffer.from(`${name}:${password.reveal()}`, 'utf8');
  }

  /** The peer proves nothing. */
  finish(): void {
    // Nothing comes.
  }
}
