/**
 * Basic callers: verified by the listener's own user file, or by nobody (`pass: true`), when the next hop
 * judges their password.
 */
import { ProxyError } from '../errors.ts';
import { KNOWN_STRIDE } from '../wire/field-lines.ts';
import type { RequestHead } from '../wire/request-head.ts';
import { decodeBasic, isBasic } from './basic-credentials.ts';
import type { BasicCaller } from './caller.ts';
import type { CallerConnection, ClientEntry, Identified } from './client-entry.ts';

/** Who knows passwords: `htpasswd/user-database.ts`. */
export interface PasswordVerifier {
  /** Verified before, and not too long ago. */
  isKnown(digest: string): boolean;
  /** `remoteAddress`: of the connection that asks; checks are shared out by it. */
  verify(caller: BasicCaller, remoteAddress: string): Promise<'ok' | 'wrong' | ProxyError>;
}

export interface BasicIdentified extends Identified {
  readonly caller: BasicCaller;
}

export class BasicEntry implements ClientEntry<BasicIdentified> {
  readonly kind = 'basic';
  readonly #field: number;
  readonly #users: PasswordVerifier | undefined;

  /** `field`: id of the field with the credentials. `users` undefined: nobody verifies. */
  constructor(field: number, users: PasswordVerifier | undefined) {
    this.#field = field;
    this.#users = users;
  }

  find(head: RequestHead, buffer: Buffer): number {
    const index = head.first(this.#field);
    if (index < 0) return -1;
    const at = index * KNOWN_STRIDE;
    return isBasic(buffer, head.known[at + 3] ?? 0, head.known[at + 4] ?? 0) ? index : -1;
  }

  identify(
    buffer: Buffer,
    start: number,
    end: number,
    { remoteAddress }: CallerConnection,
  ): BasicIdentified | ProxyError | Promise<BasicIdentified | ProxyError> {
    const caller = decodeBasic(buffer, start, end);
    if (caller === undefined) return refusal('the caller sent malformed Basic credentials');
    if (this.#users === undefined) return { caller };
    if (this.#users.isKnown(caller.digest)) return verified(caller);
    return verify(this.#users, caller, remoteAddress);
  }

  holds({ caller }: BasicIdentified): boolean {
    return this.#users === undefined || this.#users.isKnown(caller.digest);
  }
}

async function verify(
  users: PasswordVerifier,
  caller: BasicCaller,
  remoteAddress: string,
): Promise<BasicIdentified | ProxyError> {
  const found = await users.verify(caller, remoteAddress);
  if (found instanceof ProxyError) return found;
  return found === 'ok'
    ? verified(caller)
    : refusal('the caller is unknown, or his password wrong');
}

const verified = (caller: BasicCaller): BasicIdentified => ({
  caller: Object.freeze({ ...caller, verified: true }),
});

const refusal = (message: string): ProxyError =>
  new ProxyError('client-auth-required', message, { side: 'downstream', stage: 'identify' });
