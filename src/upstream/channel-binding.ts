/**
 * The `tls-server-end-point` channel binding (RFC 5929 4.1) of a server's certificate: which hash its
 * signature algorithm asks for, read from the DER.
 *
 * Node names no hash for RSASSA-PSS, so the algorithm is read here, by a reader that knows definite
 * lengths only and descends into nothing but what it looks for. Where the certificate comes from, also
 * on a resumed session, is the dialler's matter.
 */
import { createHash } from 'node:crypto';

const PREFIX = Buffer.from('tls-server-end-point:', 'latin1');

const SEQUENCE = 0x30;
const OBJECT_IDENTIFIER = 0x06;
const BIT_STRING = 0x03;
const CONTEXT_0 = 0xa0;
const CONTEXT_1 = 0xa1;

/** DER contents of an object identifier, in hex, to the one hash that it names. */
const HASHES: ReadonlyMap<string, string> = new Map([
  ['2a864886f70d0205', 'md5'],
  ['2b0e03021a', 'sha1'],
  ['608648016503040204', 'sha224'],
  ['608648016503040201', 'sha256'],
  ['608648016503040202', 'sha384'],
  ['608648016503040203', 'sha512'],
]);

/** The same for signature algorithms: RSA PKCS #1 v1.5 and ECDSA. */
const SIGNATURES: ReadonlyMap<string, string> = new Map([
  ['2a864886f70d010104', 'md5'],
  ['2a864886f70d010105', 'sha1'],
  ['2a864886f70d01010e', 'sha224'],
  ['2a864886f70d01010b', 'sha256'],
  ['2a864886f70d01010c', 'sha384'],
  ['2a864886f70d01010d', 'sha512'],
  ['2a8648ce3d0401', 'sha1'],
  ['2a8648ce3d040301', 'sha224'],
  ['2a8648ce3d040302', 'sha256'],
  ['2a8648ce3d040303', 'sha384'],
  ['2a8648ce3d040304', 'sha512'],
]);

const RSASSA_PSS = '2a864886f70d01010a';
const MGF1 = '2a864886f70d010108';

/**
 * Application data for the GSS channel bindings: the prefix and the hash of the certificate exactly as
 * the server sent it. MD5 and SHA-1 become SHA-256. Undefined where RFC 5929 defines no hash (Ed25519,
 * Ed448, ML-DSA, RSASSA-PSS with two hashes) and for anything that is no certificate. Never throws.
 */
export function endPointBinding(certificateDer: Uint8Array): Uint8Array | undefined {
  const hash = signatureHash(certificateDer);
  if (hash === undefined) return undefined;
  const strong = hash === 'md5' || hash === 'sha1' ? 'sha256' : hash;
  return Buffer.concat([PREFIX, createHash(strong).update(certificateDer).digest()]);
}

/** Certificate ::= SEQUENCE { tbsCertificate, signatureAlgorithm, signatureValue } (RFC 5280 4.1). */
function signatureHash(der: Uint8Array): string | undefined {
  const [certificate, ...rest] = readAll(der, 1) ?? [];
  if (certificate?.tag !== SEQUENCE || rest.length > 0) return undefined;
  const parts = readAll(certificate.body, 3);
  if (parts?.length !== 3 || parts[2]?.tag !== BIT_STRING) return undefined;
  const algorithm = parts[1] && readAlgorithm(parts[1]);
  if (algorithm === undefined) return undefined;
  if (algorithm.id !== RSASSA_PSS) return SIGNATURES.get(algorithm.id);
  return algorithm.parameters && pssHash(algorithm.parameters);
}

/**
 * RSASSA-PSS-params (RFC 4055 3.1): [0] hash and [1] mask generation, both SHA-1 when absent. Two
 * different hashes are "more than one hash function", for which RFC 5929 defines nothing.
 */
function pssHash(parameters: Element): string | undefined {
  const fields = parameters.tag === SEQUENCE ? readAll(parameters.body, 4) : undefined;
  if (fields === undefined) return undefined;
  const hashField = fields.find((field) => field.tag === CONTEXT_0);
  const maskField = fields.find((field) => field.tag === CONTEXT_1);
  const hash = hashField === undefined ? 'sha1' : hashOf(readOnly(hashField.body));
  const mask = maskField === undefined ? 'sha1' : mgf1Hash(readOnly(maskField.body));
  return hash === mask ? hash : undefined;
}

function mgf1Hash(element: Element | undefined): string | undefined {
  const algorithm = element && readAlgorithm(element);
  return algorithm?.id === MGF1 ? hashOf(algorithm.parameters) : undefined;
}

function hashOf(element: Element | undefined): string | undefined {
  const algorithm = element && readAlgorithm(element);
  return algorithm && HASHES.get(algorithm.id);
}

/** AlgorithmIdentifier ::= SEQUENCE { OBJECT IDENTIFIER, parameters OPTIONAL }. */
function readAlgorithm(
  element: Element,
): { id: string; parameters: Element | undefined } | undefined {
  const parts = element.tag === SEQUENCE ? readAll(element.body, 2) : undefined;
  const id = parts?.[0];
  if (id?.tag !== OBJECT_IDENTIFIER || id.body.length === 0) return undefined;
  return { id: Buffer.from(id.body).toString('hex'), parameters: parts?.[1] };
}

interface Element {
  readonly tag: number;
  readonly body: Uint8Array;
}

/** The elements that fill `bytes` exactly, at most `limit` of them; undefined otherwise. */
function readAll(bytes: Uint8Array, limit: number): Element[] | undefined {
  const elements: Element[] = [];
  let rest = bytes;
  while (rest.length > 0) {
    const header = readHeader(rest);
    if (header === undefined || elements.length === limit) return undefined;
    const { tag, bodyAt, end } = header;
    elements.push({ tag, body: rest.subarray(bodyAt, end) });
    rest = rest.subarray(end);
  }
  return elements;
}

function readOnly(bytes: Uint8Array): Element | undefined {
  return readAll(bytes, 1)?.[0];
}

/** One-byte tags; lengths definite, in at most four bytes, and inside `bytes`. */
function readHeader(bytes: Uint8Array): { tag: number; bodyAt: number; end: number } | undefined {
  const [tag, first] = bytes;
  if (tag === undefined || first === undefined || (tag & 0x1f) === 0x1f) return undefined;
  if (first < 0x80) return fitting(tag, 2, first, bytes.length);
  const count = first & 0x7f;
  if (count === 0 || count > 4 || bytes.length < 2 + count) return undefined;
  let length = 0;
  for (const byte of bytes.subarray(2, 2 + count)) length = length * 256 + byte;
  return fitting(tag, 2 + count, length, bytes.length);
}

function fitting(
  tag: number,
  bodyAt: number,
  length: number,
  available: number,
): { tag: number; bodyAt: number; end: number } | undefined {
  const end = bodyAt + length;
  return end > available ? undefined : { tag, bodyAt, end };
}
