/** Secrets as identities hold them, and versions of credentials that lie elsewhere. */
import { exactBytes } from '../../src/identity/process-key.ts';
import {
  type SecretVersion,
  SecretVersions,
  type VersionedSecret,
} from '../../src/identity/secret-version.ts';
import { Secret } from '../../src/identity/secret.ts';

const VERSIONS = new SecretVersions();

/** An NT hash, or 16 bytes that are equal exactly for equal numbers. */
export function ntHashSecret(content: Buffer | number = 0): VersionedSecret<Buffer> {
  if (typeof content !== 'number') return VERSIONS.secret(new Secret(content));
  const bytes = Buffer.alloc(16);
  bytes.writeUInt32BE(content);
  return VERSIONS.secret(new Secret(bytes));
}

export const passwordSecret = (password: string): VersionedSecret<string> =>
  VERSIONS.secret(new Secret(password));

/** Of a keytab, a cache or a password that `content` stands for. */
export const credentialVersion = (content = ''): SecretVersion =>
  VERSIONS.version('test', exactBytes(content));
