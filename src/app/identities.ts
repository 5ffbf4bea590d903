/**
 * Makes the identities of the configured principals, each with the versions of its secrets.
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
import { exactBytes } from '../identity/process-key.ts';
import type { SecretVersion, SecretVersions } from '../identity/secret-version.ts';
import { Secret } from '../identity/secret.ts';

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
    ntHash: versions.secret(ntHash),
    password:
      keepsPasswords && principal.kind === 'password'
        ? versions.secret(principal.password)
        : undefined,
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
    version: versionOf(part, versions),
  });
}

/** A cache is told by its path: its content renews itself. */
function versionOf(part: KerberosPart, versions: SecretVersions): SecretVersion {
  switch (part.source) {
    case 'keytab':
      return versions.version(part.source, exactBytes(part.fingerprint));
    case 'ccache':
      return versions.version(part.source, exactBytes(part.path));
    case 'password':
      return versions.secret(part.password).version;
    case 'ambient':
      return versions.version(part.source, exactBytes(''));
    default:
      return part satisfies never;
  }
}
