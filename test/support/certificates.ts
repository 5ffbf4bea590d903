/**
 * Certificates made at test time by the openssl command, one authority per kind, kept in a
 * temporary folder of this process and removed when it ends. Verification stays on everywhere:
 * clients are given the authority.
 */

import { execFileSync } from 'node:child_process';
import { createHash, X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { temporaryFolder } from './temporary-folder.ts';

/** Signature of the certificate: key type and digest. */
export const CERTIFICATE_KINDS = [
  'ecdsa-sha256',
  'ecdsa-sha384',
  'ecdsa-sha512',
  'rsa-sha1',
  'rsa-sha256',
  'rsa-sha384',
  'rsa-pss-sha256',
  'rsa-pss-sha384',
  'ed25519',
] as const;

export type CertificateKind = (typeof CERTIFICATE_KINDS)[number];

export interface TestCertificate {
  /** PEM texts for a TLS server. */
  readonly key: string;
  readonly cert: string;
  /** PEM text of the authority, for clients that trust it. */
  readonly ca: string;
  /** The same as files, for configurations that name a path. */
  readonly keyFile: string;
  readonly certFile: string;
  readonly caFile: string;
  readonly der: Buffer;
  /**
   * `tls-server-end-point:` and the hash of the certificate (RFC 5929 4.1: SHA-256 in place of MD5
   * and SHA-1). The RFC leaves Ed25519, which names no digest, undefined: then this is undefined.
   */
  readonly endPoint: Buffer | undefined;
}

export interface CertificateWish {
  readonly kind?: CertificateKind;
  /** DNS names; 127.0.0.1 and ::1 are always named too. Default: localhost. */
  readonly names?: readonly string[];
}

const made = new Map<string, TestCertificate>();

/** A certificate as wished; equal wishes give the same one within the process. */
export function testCertificate(wish: CertificateWish = {}): TestCertificate {
  const kind = wish.kind ?? 'ecdsa-sha256';
  const names = wish.names ?? ['localhost'];
  const key = JSON.stringify([kind, names]);
  const known = made.get(key);
  if (known !== undefined) return known;
  const fresh = make(kind, names, join(temporaryFolder(), `c${made.size}`));
  made.set(key, fresh);
  return fresh;
}

function make(kind: CertificateKind, names: readonly string[], stem: string): TestCertificate {
  const [caKeyFile, caFile] = [`${stem}-ca.key`, `${stem}-ca.pem`];
  const [keyFile, certFile] = [`${stem}.key`, `${stem}.pem`];
  openssl([...request(kind, 'sidekerb test authority'), '-keyout', caKeyFile, '-out', caFile]);
  const alternatives = [...names.map((name) => `DNS:${name}`), 'IP:127.0.0.1', 'IP:::1'].join(',');
  openssl([
    ...request(kind, names[0] ?? 'localhost'),
    '-CA',
    caFile,
    '-CAkey',
    caKeyFile,
    '-keyout',
    keyFile,
    '-out',
    certFile,
    '-addext',
    `subjectAltName=${alternatives}`,
    '-addext',
    'basicConstraints=critical,CA:FALSE',
  ]);
  const cert = readFileSync(certFile, 'utf8');
  const der = new X509Certificate(cert).raw;
  const ca = readFileSync(caFile, 'utf8');
  const key = readFileSync(keyFile, 'utf8');
  return { key, cert, ca, keyFile, certFile, caFile, der, endPoint: endPoint(kind, der) };
}

function request(kind: CertificateKind, commonName: string): string[] {
  const subject = ['-subj', `/CN=${commonName}`, '-days', '2', '-nodes'];
  if (kind === 'ed25519') return ['-newkey', 'ed25519', ...subject];
  const digest = `-${kind.split('-').at(-1) ?? 'sha256'}`;
  if (kind.startsWith('ecdsa')) {
    return ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', digest, ...subject];
  }
  const pss = ['-sigopt', 'rsa_padding_mode:pss', '-sigopt', 'rsa_pss_saltlen:-1'];
  return ['-newkey', 'rsa:2048', digest, ...(kind.startsWith('rsa-pss') ? pss : []), ...subject];
}

function openssl(options: readonly string[]): void {
  execFileSync('openssl', ['req', '-x509', ...options], { stdio: ['ignore', 'ignore', 'pipe'] });
}

function endPoint(kind: CertificateKind, der: Buffer): Buffer | undefined {
  if (kind === 'ed25519') return undefined;
  const named = kind.split('-').at(-1) ?? 'sha256';
  const hash = createHash(named === 'sha1' ? 'sha256' : named)
    .update(der)
    .digest();
  return Buffer.concat([Buffer.from('tls-server-end-point:'), hash]);
}
