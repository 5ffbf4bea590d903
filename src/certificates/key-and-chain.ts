/**
 * Whether a key and its certificates can serve a listener: what would make clients turn away is
 * said before they do. In words for operators; nothing in them is secret.
 */
import { createPrivateKey, type KeyObject, X509Certificate } from 'node:crypto';
import { isIP } from 'node:net';
import type { Secret } from '../identity/secret.ts';

export interface ServerCertificate {
  /** PEM, one each: the key's own (the leaf), then the issuer of each. */
  readonly certificates: readonly string[];
  /** PEM. */
  readonly key: Secret<string>;
  /** Of `key`, where it is encrypted. */
  readonly passphrase?: Secret<string> | undefined;
  /** Host names and addresses that the leaf has to cover; one with `*.` in front is covered by itself only. */
  readonly names?: readonly string[];
  /** Wall clock, milliseconds since 1970. */
  readonly now: number;
}

export interface CertificateFindings {
  /** Each is reason enough not to serve with it. */
  readonly faults: readonly string[];
  readonly warnings: readonly string[];
}

const DAY_MS = 86_400_000;
const SOON_DAYS = 14;
const MIN_RSA_BITS = 2048;
const SERVER_AUTH = '1.3.6.1.5.5.7.3.1';
const ANY_PURPOSE = '2.5.29.37.0';

/** All that is wrong, faults and warnings apart; empty lists for what is good. */
export function checkServerCertificate(material: ServerCertificate): CertificateFindings {
  const chain: X509Certificate[] = [];
  for (const [at, pem] of material.certificates.entries()) {
    const certificate = readCertificate(pem);
    if (certificate === undefined) {
      return { faults: [`certificate ${at + 1} cannot be read`], warnings: [] };
    }
    chain.push(certificate);
  }
  const [leaf] = chain;
  if (leaf === undefined) return { faults: ['there is no certificate'], warnings: [] };
  const names = nameFindings(leaf, material.names ?? []);
  const times = timeFindings(chain, material.now);
  return {
    faults: [
      ...keyFaults(leaf, material),
      ...orderFaults(chain),
      ...times.faults,
      ...names.faults,
      ...strengthFaults(leaf),
      ...purposeFaults(leaf),
    ],
    warnings: [...times.warnings, ...names.warnings],
  };
}

/** The certificates in a PEM text, in order; whatever is around them is left out. */
export function certificatesOf(pem: string): string[] {
  return pem.match(/-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----/g) ?? [];
}

function readCertificate(pem: string): X509Certificate | undefined {
  try {
    return new X509Certificate(pem);
  } catch {
    return undefined;
  }
}

function readKey({ key, passphrase }: ServerCertificate): KeyObject | undefined {
  const secret = passphrase === undefined ? {} : { passphrase: passphrase.reveal() };
  try {
    return createPrivateKey({ key: key.reveal(), format: 'pem', ...secret });
  } catch {
    return undefined;
  }
}

function keyFaults(leaf: X509Certificate, material: ServerCertificate): string[] {
  const key = readKey(material);
  if (key === undefined) return ['the key cannot be read, or its passphrase is another'];
  if (leaf.checkPrivateKey(key)) return [];
  return ['the key does not belong to the first certificate'];
}

function orderFaults(chain: readonly X509Certificate[]): string[] {
  return chain.flatMap((certificate, at) => {
    const next = chain[at + 1];
    if (next === undefined || hasIssued(next, certificate)) return [];
    return [`the chain is out of order: certificate ${at + 2} did not issue certificate ${at + 1}`];
  });
}

const hasIssued = (issuer: X509Certificate, certificate: X509Certificate): boolean =>
  certificate.checkIssued(issuer) && certificate.verify(issuer.publicKey);

/**
 * Past the first certificate a bad date is a warning only: a client may know another way to a root
 * that it trusts.
 */
function timeFindings(chain: readonly X509Certificate[], now: number): CertificateFindings {
  const faults: string[] = [];
  const warnings: string[] = [];
  for (const [at, { validFromDate: from, validToDate: to }] of chain.entries()) {
    const bad = at === 0 ? faults : warnings;
    const name = `certificate ${at + 1}`;
    if (now > to.getTime()) bad.push(`${name} ended at ${to.toISOString()}`);
    else if (now < from.getTime()) bad.push(`${name} is not valid before ${from.toISOString()}`);
    else if (to.getTime() - now < SOON_DAYS * DAY_MS) {
      warnings.push(`${name} ends within ${SOON_DAYS} days, at ${to.toISOString()}`);
    }
  }
  return { faults, warnings };
}

function nameFindings(leaf: X509Certificate, names: readonly string[]): CertificateFindings {
  const faults: string[] = [];
  const warnings: string[] = [];
  for (const name of names) {
    if (isIP(name) !== 0) {
      if (leaf.checkIP(name) === undefined) faults.push(notCovered(name));
      continue;
    }
    if (leaf.checkHost(name, { subject: 'never' }) !== undefined) continue;
    if (leaf.checkHost(name) === undefined) faults.push(notCovered(name));
    else {
      warnings.push(
        `the certificate names ${name} as its common name only, which many clients ignore`,
      );
    }
  }
  return { faults, warnings };
}

const notCovered = (name: string): string => `the certificate does not cover the name ${name}`;

function strengthFaults(leaf: X509Certificate): string[] {
  const faults: string[] = [];
  const bits = leaf.publicKey.asymmetricKeyDetails?.modulusLength;
  if (bits !== undefined && bits < MIN_RSA_BITS) {
    faults.push(`the key has ${bits} bits, fewer than ${MIN_RSA_BITS}`);
  }
  const weak = /sha1|md5/i.exec(leaf.signatureAlgorithm ?? '');
  if (weak !== null) {
    faults.push(`the certificate is signed with ${weak[0].toUpperCase()}, which clients refuse`);
  }
  return faults;
}

function purposeFaults(leaf: X509Certificate): string[] {
  // Undefined in the types' sense of "always there": a certificate without the extension has none.
  const purposes: readonly string[] | undefined = leaf.keyUsage;
  if (purposes === undefined) return [];
  if (purposes.includes(SERVER_AUTH) || purposes.includes(ANY_PURPOSE)) return [];
  return ['the certificate is not for servers: serverAuth is not among its purposes'];
}
