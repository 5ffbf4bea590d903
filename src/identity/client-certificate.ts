/**
 * The certificate that a caller's TLS connection brought, read once: its names, times and thumbprint.
 *
 * Names are taken from the decoded fields, never by searching a printed form: a name may contain what
 * separates names in print (CVE-2021-44532).
 */
import type { X509Certificate } from 'node:crypto';

/** What rules may ask of a certificate; each may hold several values. */
export const CERTIFICATE_FIELDS = [
  'cn',
  'organization',
  'unit',
  'issuer',
  'san-uri',
  'san-dns',
  'san-email',
] as const;

export type CertificateField = (typeof CERTIFICATE_FIELDS)[number];

/** Frozen. */
export interface ClientCertificate {
  readonly fields: Readonly<Record<CertificateField, readonly string[]>>;
  /** SHA-256 of the DER in base64url, as `x5t#S256` has it (RFC 8705 3.1). */
  readonly thumbprint: string;
  /** ms since 1970. */
  readonly notBeforeMs: number;
  /** ms since 1970. */
  readonly notAfterMs: number;
  /** Why it leads to no authority of the listener; undefined: it does. */
  readonly fault: string | undefined;
  /** Digest of the authorities that judged it (R51). */
  readonly trust: string;
}

/** Who judged a certificate, and how. */
export interface CertificateVerdict {
  readonly fault: string | undefined;
  readonly trust: string;
}

export function readClientCertificate(
  certificate: X509Certificate,
  { fault, trust }: CertificateVerdict,
): ClientCertificate {
  const { subject, issuer } = certificate.toLegacyObject();
  const names = alternativeNames(certificate.subjectAltName ?? '');
  const fields = {
    cn: valuesOf(subject.CN),
    organization: valuesOf(subject.O),
    unit: valuesOf(subject.OU),
    issuer: valuesOf(issuer.CN),
    'san-uri': names.get('URI') ?? [],
    'san-dns': names.get('DNS') ?? [],
    'san-email': names.get('email') ?? [],
  };
  return Object.freeze({
    fields: Object.freeze(fields),
    thumbprint: Buffer.from(certificate.fingerprint256.replaceAll(':', ''), 'hex').toString(
      'base64url',
    ),
    notBeforeMs: certificate.validFromDate.getTime(),
    notAfterMs: certificate.validToDate.getTime(),
    fault,
    trust,
  });
}

/** The type says text; a name that has an attribute twice has a list. */
function valuesOf(value: unknown): readonly string[] {
  if (typeof value === 'string') return [value];
  return Array.isArray(value) ? value.filter((each) => typeof each === 'string') : [];
}

/**
 * Node prints `TYPE:value, TYPE:value`, and a value that could be mistaken as a JSON text. Of anything
 * else there are no names at all.
 */
export function alternativeNames(printed: string): ReadonlyMap<string, readonly string[]> {
  const names = new Map<string, string[]>();
  const entry =
    /(?<type>[A-Za-z][A-Za-z ]*):(?:(?<json>"(?:[^"\\]|\\.)*")|(?<plain>[^",]*))(?:, |$)/y;
  while (entry.lastIndex < printed.length) {
    const found = entry.exec(printed)?.groups;
    if (found === undefined) return new Map();
    const { type = '', json, plain = '' } = found;
    const value: unknown = json === undefined ? plain : JSON.parse(json);
    if (typeof value !== 'string') return new Map();
    names.set(type, [...(names.get(type) ?? []), value]);
  }
  return names;
}
