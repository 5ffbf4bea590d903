/**
 * Tokens that are bound to a key (RFC 7800): whoever brings one has to have shown the key. The one proof
 * that a listener sees is the certificate of the connection (RFC 8705 3.1).
 */
import type { ClientCertificate } from '../../identity/client-certificate.ts';
import type { Claims } from '../caller.ts';

const THUMBPRINT = 'x5t#S256';

/**
 * Why a token with these claims is refused on a connection with this certificate, which counts, as a
 * sentence; undefined where it is not. A token that is bound in a way that is not known here is refused: to take it
 * from anybody would undo what its issuer did.
 */
export function confirmationFault(
  claims: Claims,
  certificate: ClientCertificate | undefined,
): string | undefined {
  if (!Object.hasOwn(claims, 'cnf')) return undefined;
  const { cnf } = claims;
  if (typeof cnf !== 'object' || cnf === null || Array.isArray(cnf)) {
    return "the caller's token has a cnf that is no object";
  }
  const [method, ...others] = Object.entries(cnf);
  if (method?.[0] !== THUMBPRINT || others.length > 0) {
    return "the caller's token is bound to a key in a way that is not served here";
  }
  return certificate !== undefined && certificate.thumbprint === method[1]
    ? undefined
    : "the caller's token is bound to another certificate";
}
