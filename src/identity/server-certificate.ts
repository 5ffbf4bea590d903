/** A certificate towards callers: who the daemon is, to those who speak TLS to it. */
import { X509Certificate } from 'node:crypto';
import { alternativeNames } from './client-certificate.ts';
import type { Secret } from './secret.ts';

export interface ServerCertificate {
  /** PEM, the leaf first. */
  readonly chain: string;
  /** PEM, not encrypted. */
  readonly key: Secret<string>;
  /** What the leaf covers: lower-case names, `*.` in front of a wildcard's. */
  readonly names: readonly string[];
  /** SHA-256 of the leaf. */
  readonly fingerprint: string;
  /** ms since 1970, of the leaf. */
  readonly notAfterMs: number;
}

/** `chain` and `key` are sound and belong together. */
export function createServerCertificate(chain: string, key: Secret<string>): ServerCertificate {
  const leaf = new X509Certificate(chain);
  const names = alternativeNames(leaf.subjectAltName ?? '').get('DNS') ?? [];
  return {
    chain,
    key,
    names: names.map((name) => name.toLowerCase()),
    fingerprint: leaf.fingerprint256,
    notAfterMs: leaf.validToDate.getTime(),
  };
}
