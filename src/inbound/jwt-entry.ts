/**
 * Callers with a token in the scheme Bearer (RFC 6750 2.1). Which issuer is to judge, the token itself
 * says; whether it may, only that issuer's keys do.
 */
import { ProxyError } from '../errors.ts';
import { KNOWN_STRIDE } from '../wire/field-lines.ts';
import type { RequestHead } from '../wire/request-head.ts';
import { afterScheme, hasScheme } from './auth-scheme.ts';
import type { JwtCaller } from './caller.ts';
import type { ClientEntry, Identified } from './client-entry.ts';
import { parseCompactToken } from './jwt/compact-token.ts';
import { type JwtVerifier, tokenDigest } from './jwt/jwt-verifier.ts';
import type { VerifiedToken } from './jwt/verified-token.ts';

const SCHEME = Buffer.from('bearer');

export interface JwtIdentified extends Identified {
  readonly caller: JwtCaller;
  readonly token: VerifiedToken;
  readonly verifier: JwtVerifier;
}

export class JwtEntry implements ClientEntry<JwtIdentified> {
  readonly kind = 'jwt';
  readonly #field: number;
  readonly #verifiers: readonly JwtVerifier[];

  /** `field`: id of the field with the credentials. One verifier for each issuer. */
  constructor(field: number, verifiers: readonly JwtVerifier[]) {
    this.#field = field;
    this.#verifiers = verifiers;
  }

  find(head: RequestHead, buffer: Buffer): number {
    const index = head.first(this.#field);
    if (index < 0) return -1;
    const at = index * KNOWN_STRIDE;
    return hasScheme(buffer, head.known[at + 3] ?? 0, head.known[at + 4] ?? 0, SCHEME) ? index : -1;
  }

  identify(
    buffer: Buffer,
    start: number,
    end: number,
  ): JwtIdentified | ProxyError | Promise<JwtIdentified | ProxyError> {
    const at = afterScheme(buffer, start, end, SCHEME);
    const digest = tokenDigest(buffer, at, end);
    for (const verifier of this.#verifiers) {
      const token = verifier.cached(digest);
      if (token !== undefined) return { caller: token.caller, token, verifier };
    }
    const parsed = parseCompactToken(buffer, at, end);
    if (parsed instanceof ProxyError) return parsed;
    const verifier = this.#verifiers.find(({ issuer }) => issuer === parsed.issuer);
    if (verifier === undefined) return refusal('the issuer of the token is not known here');
    return verifier.verify(parsed, digest).then((token) => {
      return token instanceof ProxyError ? token : { caller: token.caller, token, verifier };
    });
  }

  holds({ token, verifier }: JwtIdentified): boolean {
    return verifier.isValid(token);
  }
}

const refusal = (message: string): ProxyError =>
  new ProxyError('caller-token-refused', message, { side: 'downstream', stage: 'identify' });
