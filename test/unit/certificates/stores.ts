/**
 * Certificates and PKCS#12 stores of the openssl command, for the tests of `certificates/`; and
 * stores that it cannot make, put together from parts of others.
 */
import { execFileSync } from 'node:child_process';
import { createHash, createHmac } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import {
  Constructed,
  fromBER,
  Integer,
  Null,
  ObjectIdentifier,
  OctetString,
  Sequence,
} from 'asn1js';
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
  return openssl(['pkcs12', '-export', '-passout', 'stdin', ...few, ...options], passphrase);
}

export const keyAndCert = ({ keyFile, certFile }: Issued): string[] => [
  '-inkey',
  keyFile,
  '-in',
  certFile,
];

function openssl(options: readonly string[], line = ''): Buffer {
  return execFileSync('openssl', options, {
    input: `${line}\n`,
    stdio: ['pipe', 'pipe', 'pipe'],
  });
}

const DATA = '1.2.840.113549.1.7.1';
const SHA256 = '2.16.840.1.101.3.4.2.1';

export interface Seal {
  /** The bytes that stand for the passphrase in the MAC; default: those of an empty one. */
  readonly password?: Buffer;
  readonly digest?: string;
  /** As it is written: the MAC is always made with one. */
  readonly iterations?: number;
  readonly contentType?: string;
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
  const salt = Buffer.alloc(8, 'salt');
  const mac = macOf(content, salt, seal.password ?? wide(''));
  const { digest = SHA256, iterations, contentType = DATA } = seal;
  const algorithm = new Sequence({ value: [new ObjectIdentifier({ value: digest }), new Null()] });
  const proof = new Sequence({ value: [algorithm, new OctetString({ valueHex: mac })] });
  const count = iterations === undefined ? [] : [new Integer({ value: iterations })];
  const shell = new Sequence({
    value: [
      new Integer({ value: 3 }),
      new Sequence({
        value: [
          new ObjectIdentifier({ value: contentType }),
          new Constructed({
            idBlock: { tagClass: 3, tagNumber: 0 },
            value: [new OctetString({ valueHex: content })],
          }),
        ],
      }),
      new Sequence({ value: [proof, new OctetString({ valueHex: salt }), ...count] }),
    ],
  });
  return Buffer.from(shell.toBER());
}

/** A passphrase as RFC 7292 B.1 writes it. */
export const wide = (passphrase: string): Buffer =>
  Buffer.from(`${passphrase}\0`, 'utf16le').swap16();

/** RFC 7292 B.2 for one iteration and a password of one block at most. */
function macOf(content: Buffer, salt: Buffer, password: Buffer): Buffer {
  const block = (bytes: Buffer): Buffer =>
    bytes.length === 0 ? Buffer.alloc(0) : Buffer.alloc(64, bytes);
  const key = createHash('sha256')
    .update(Buffer.alloc(64, 3))
    .update(block(salt))
    .update(block(password))
    .digest();
  return createHmac('sha256', key).update(content).digest();
}
