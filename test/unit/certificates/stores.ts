/**
 * Certificates and PKCS#12 stores of the openssl command, for the tests of `certificates/`; and
 * stores that it cannot make, put together from parts of others.
 */
import { execFileSync } from 'node:child_process';
import { createHash, createHmac, pbkdf2Sync } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type BaseBlock, fromBER, Integer, ObjectIdentifier, Sequence } from 'asn1js';
import { decodeShell } from '../../../src/certificates/pkcs12-structure.ts';
import { temporaryFolder } from '../../support/temporary-folder.ts';

/** A certificate with its key: PEM texts and their files. */
export interface Issued {
  readonly cert: string;
  readonly key: string;
  readonly certFile: string;
  readonly keyFile: string;
}

export interface IssueWish {
  /** Default: itself. */
  readonly issuer?: Issued;
  /** As `openssl req -newkey` takes it; default `ec`, on P-256. */
  readonly key?: string;
  /** Of another certificate. */
  readonly sameKeyAs?: Issued;
  readonly digest?: 'md5' | 'sha1' | 'sha256';
  readonly days?: number;
  /** As `-addext` takes them. */
  readonly extensions?: readonly string[];
}

let made = 0;

export function issue(commonName: string, wish: IssueWish = {}): Issued {
  made += 1;
  const stem = join(temporaryFolder(), `issued${made}`);
  const certFile = `${stem}.pem`;
  const keyFile = wish.sameKeyAs?.keyFile ?? `${stem}.key`;
  const type = wish.key ?? 'ec';
  const curve = type === 'ec' ? ['-pkeyopt', 'ec_paramgen_curve:prime256v1'] : [];
  const { issuer } = wish;
  openssl([
    'req',
    '-x509',
    '-nodes',
    `-${wish.digest ?? 'sha256'}`,
    '-subj',
    `/CN=${commonName}`,
    '-out',
    certFile,
    '-days',
    String(wish.days ?? 90),
    ...(wish.sameKeyAs === undefined
      ? ['-newkey', type, ...curve, '-keyout', keyFile]
      : ['-key', keyFile]),
    ...(issuer === undefined ? [] : ['-CA', issuer.certFile, '-CAkey', issuer.keyFile]),
    ...(wish.extensions ?? []).flatMap((extension) => ['-addext', extension]),
  ]);
  const [cert, key] = [readFileSync(certFile, 'utf8'), readFileSync(keyFile, 'utf8')];
  return { cert, key, certFile, keyFile };
}

export const END = 'basicConstraints=critical,CA:FALSE';

/** A root, what it issued, and an end certificate under that. */
export function issueChain(key: string, name = 'leaf.test'): readonly [Issued, Issued, Issued] {
  const root = issue('root', { key });
  const middle = issue('middle', {
    key,
    issuer: root,
    extensions: ['basicConstraints=critical,CA:TRUE'],
  });
  const leaf = issue(name, {
    key,
    issuer: middle,
    extensions: [END, `subjectAltName=DNS:${name}`],
  });
  return [root, middle, leaf];
}

/** A store; the options are those of `openssl pkcs12 -export`. Few iterations unless they say so. */
export function store(passphrase: string, options: readonly string[]): Buffer {
  const few = options.includes('-iter') ? [] : ['-iter', '1'];
  return openssl(['pkcs12', '-export', '-passout', 'env:WORD', ...few, ...options], passphrase);
}

export const keyAndCert = ({ keyFile, certFile }: Issued): string[] => [
  '-inkey',
  keyFile,
  '-in',
  certFile,
];

function openssl(options: readonly string[], word = ''): Buffer {
  return execFileSync('openssl', options, {
    env: { ...process.env, WORD: word },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
}

const DATA = '1.2.840.113549.1.7.1';
const SHA256 = '2.16.840.1.101.3.4.2.1';
const PBMAC1 = '1.2.840.113549.1.5.14';
const PBKDF2 = '1.2.840.113549.1.5.12';
const HMAC_SHA256 = '1.2.840.113549.2.9';
const SAFE_CONTENTS_BAG = '1.2.840.113549.1.12.10.1.6';
const HMAC_SHA512 = '1.2.840.113549.2.11';

export interface Seal {
  /** The bytes that stand for the passphrase in the MAC; default: those of an empty one. */
  readonly password?: Buffer;
  readonly digest?: string;
  /** As it is written: the MAC is always made with one. */
  readonly iterations?: number;
  readonly contentType?: string;
  /** The content in two octet strings, without length, as some programs write it (BER). */
  readonly pieces?: true;
  /** A MAC of RFC 9579 instead, with a key of that many bytes. */
  readonly pbmac1?: number;
  /** Its key derivation names no PRF, which means HMAC-SHA1; else HMAC-SHA512 is named. */
  readonly prf?: 'none';
  /** Instead of the parts. */
  readonly content?: Uint8Array;
}

/** One store with the parts of all of these. A MAC of one iteration is computed anew. */
export function merged(stores: readonly Buffer[], seal: Seal = {}): Buffer {
  const parts = stores.flatMap((each) => {
    const { result } = fromBER(decodeShell(each).content);
    return result instanceof Sequence ? result.valueBlock.value : [];
  });
  const content = Buffer.from(
    seal.content ?? new Uint8Array(new Sequence({ value: parts }).toBER()),
  );
  const { iterations, contentType = DATA, pbmac1, prf, pieces } = seal;
  const password = seal.password ?? wide('');
  const [algorithm, mac] =
    pbmac1 === undefined
      ? [algorithmOf(seal.digest ?? SHA256), macOf(content, password)]
      : [pbmac1Of(pbmac1, prf), pbmac1MacOf(content, password, pbmac1, prf)];
  const count = iterations === undefined ? [] : [new Integer({ value: iterations })];
  return tlv(
    0x30,
    new Integer({ value: 3 }),
    tlv(
      0x30,
      new ObjectIdentifier({ value: contentType }),
      tlv(0xa0, pieces === undefined ? tlv(0x04, content) : inPieces(content)),
    ),
    tlv(0x30, tlv(0x30, algorithm, tlv(0x04, mac)), tlv(0x04, SALT), ...count),
  );
}

const SALT = Buffer.alloc(8, 'salt');

type Part = Uint8Array | BaseBlock;

const bytesOf = (part: Part): Uint8Array =>
  part instanceof Uint8Array ? part : new Uint8Array(part.toBER());

/** One value of DER; lengths of two bytes suffice. */
function tlv(tag: number, ...parts: readonly Part[]): Buffer {
  const value = Buffer.concat(parts.map(bytesOf));
  return Buffer.concat([Buffer.of(tag, 0x82, value.length >> 8, value.length & 0xff), value]);
}

/** An octet string without length, of two that have one. */
function inPieces(content: Buffer): Buffer {
  const middle = content.length >> 1;
  const halves = [content.subarray(0, middle), content.subarray(middle)];
  const pieces = halves.map((half) => tlv(0x04, half));
  return Buffer.concat([Buffer.of(0x24, 0x80), ...pieces, Buffer.of(0, 0)]);
}

const algorithmOf = (value: string, ...parameters: readonly Part[]): Buffer =>
  tlv(0x30, new ObjectIdentifier({ value }), ...(parameters.length === 0 ? [NULL] : parameters));

const NULL = Buffer.of(0x05, 0x00);

const pbmac1Of = (size: number, prf: Seal['prf']): Buffer => {
  const numbers = [new Integer({ value: 2 }), new Integer({ value: size })];
  const named = prf === 'none' ? [] : [algorithmOf(HMAC_SHA512)];
  const derivation = tlv(0x30, tlv(0x04, SALT), ...numbers, ...named);
  return algorithmOf(PBMAC1, tlv(0x30, algorithmOf(PBKDF2, derivation), algorithmOf(HMAC_SHA256)));
};

function pbmac1MacOf(content: Buffer, password: Buffer, size: number, prf: Seal['prf']): Buffer {
  const key = pbkdf2Sync(password, SALT, 2, size, prf === 'none' ? 'sha1' : 'sha512');
  return createHmac('sha256', key).update(content).digest();
}

/** The content of a store whose one bag holds these bags, themselves in none. */
export function nested(bags: Uint8Array): Buffer {
  const bag = tlv(0x30, new ObjectIdentifier({ value: SAFE_CONTENTS_BAG }), tlv(0xa0, bags));
  return tlv(
    0x30,
    tlv(0x30, new ObjectIdentifier({ value: DATA }), tlv(0xa0, tlv(0x04, tlv(0x30, bag)))),
  );
}

/** A passphrase as RFC 7292 B.1 writes it. */
export const wide = (passphrase: string): Buffer =>
  Buffer.from(`${passphrase}\0`, 'utf16le').swap16();

/** RFC 7292 B.2 for one iteration and a password of one block at most. */
function macOf(content: Buffer, password: Buffer): Buffer {
  const block = (bytes: Buffer): Buffer =>
    bytes.length === 0 ? Buffer.alloc(0) : Buffer.alloc(64, bytes);
  const key = createHash('sha256')
    .update(Buffer.alloc(64, 3))
    .update(block(SALT))
    .update(block(password))
    .digest();
  return createHmac('sha256', key).update(content).digest();
}
