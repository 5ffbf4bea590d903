/**
 * Makes the identities of the configured principals, and numbers the versions of their secrets.
 */
import { ntowfv1 } from '../auth/ntlm/ntlmv2.ts';
import type { KerberosPart, OwnPrincipal, PrincipalConfig } from '../config/config.ts';
import {
  createCombinedIdentity,
  createKerberosIdentity,
  createNtlmIdentity,
  type KerberosIdentity,
  type LoginIdentity,
  type NtlmIdentity,
  WORKSTATION,
} from '../identity/identity.ts';
import { keyedDigest } from '../identity/process-key.ts';
import { Secret } from '../identity/secret.ts';

/**
 * Numbers secrets: equal content has the same number, other content another one, also between
 * principals that share an account. Keeps keyed digests, never a secret (R46, R47).
 */
export class SecretVersions {
  readonly #numbers = new Map<string, number>();

  number(content: Buffer): number {
    const digest = keyedDigest('secret version', content).toString('hex');
    const known = this.#numbers.get(digest);
    if (known !== undefined) return known;
    const next = this.#numbers.size + 1;
    this.#numbers.set(digest, next);
    return next;
  }
}

/**
 * The identity of a principal; a password becomes its NT hash here, and is kept itself only where
 * `keepsPasswords`, for upstreams that are logged in to with it.
 */
export function createIdentity(
  principal: PrincipalConfig,
  versions: SecretVersions,
  keepsPasswords = false,
): LoginIdentity {
  if (principal.kind === 'client')
    throw new Error(`${principal.name} has no credential of its own`);
  const { name, kerberos } = principal;
  const tickets = kerberos && kerberosIdentity(name, kerberos, versions);
  if (principal.kind === 'kerberos') {
    if (tickets === undefined) throw new Error(`${name} has no credential`);
    return tickets;
  }
  const ntlm = ntlmIdentity(principal, versions, keepsPasswords);
  return tickets === undefined ? ntlm : createCombinedIdentity(tickets, ntlm);
}

function ntlmIdentity(
  principal: Exclude<OwnPrincipal, { readonly kind: 'kerberos' }>,
  versions: SecretVersions,
  keepsPasswords: boolean,
): NtlmIdentity {
  const ntHash =
    principal.kind === 'nt-hash'
      ? principal.ntHash
      : new Secret(ntowfv1(principal.password.reveal()));
  return createNtlmIdentity({
    principal: principal.name,
    username: principal.username,
    workstation: WORKSTATION,
    ntHash,
    password: keepsPasswords && principal.kind === 'password' ? principal.password : undefined,
    generation: versions.number(ntHash.reveal()),
  });
}

function kerberosIdentity(
  principal: string,
  part: KerberosPart,
  versions: SecretVersions,
): KerberosIdentity {
  return createKerberosIdentity({
    principal,
    name: part.source === 'ambient' ? undefined : part.principal,
    source: part.source,
    credential: part.source === 'keytab' || part.source === 'ccache' ? part.path : '',
    generation: versions.number(contentOf(part)),
  });
}

/** What a version of the credential is told by. A cache is told by its path: its content renews itself. */
function contentOf(part: KerberosPart): Buffer {
  switch (part.source) {
    case 'keytab':
      return Buffer.from(`keytab ${part.fingerprint}`);
    case 'ccache':
      return Buffer.from(`ccache ${part.path}`);
    case 'password':
      return Buffer.from(part.password.reveal());
    case 'ambient':
      return Buffer.from('ambient');
    default:
      return part satisfies never;
  }
}
