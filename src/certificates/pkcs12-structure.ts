/**
 * What a PKCS#12 store is made of (RFC 7292 section 4), as plain values: the one importer of the
 * parser. Nothing is decrypted or believed here. Whatever the parser throws means a damaged store.
 */
import { type BaseBlock, fromBER, Integer, OctetString, Sequence } from 'asn1js';
import {
  AlgorithmIdentifier,
  AuthenticatedSafe,
  CertBag,
  type ContentInfo,
  EncryptedData,
  type MacData,
  PBES2Params,
  PBKDF2Params,
  PFX,
  PKCS8ShroudedKeyBag,
  PrivateKeyInfo,
  type SafeBag,
  SafeContents,
} from 'pkijs';
import { Unusable } from './pkcs12-fault.ts';

/** The outermost layer: bytes, and what proves them. */
export interface StoreShell {
  readonly content: Buffer;
  readonly mac: StoreMac;
}

/** Of RFC 7292, or PBMAC1 (RFC 9579); algorithms are object identifiers. */
export type StoreMac = {
  readonly value: Buffer;
  readonly salt: Buffer;
  readonly iterations: number;
} & (
  | { readonly kind: 'pkcs12'; readonly digest: string }
  | {
      readonly kind: 'pbmac1';
      readonly hmac: string;
      readonly prf: string;
      /** Bytes of the derived key; zero where the store has no number there. */
      readonly keySize: number;
    }
);

/** How something is encrypted under the passphrase; algorithms are object identifiers. */
export type StoreEncryption =
  | {
      readonly kind: 'pbes2';
      readonly cipher: string;
      readonly iv: Buffer;
      readonly prf: string;
      readonly salt: Buffer;
      readonly iterations: number;
    }
  | {
      readonly kind: 'pkcs12';
      readonly scheme: string;
      readonly salt: Buffer;
      readonly iterations: number;
    };

/** Bytes, plain where `encryption` is undefined. */
export interface Sealed {
  readonly encryption: StoreEncryption | undefined;
  readonly content: Buffer;
}

export type Bag =
  ({ readonly kind: 'key' } & Sealed) | { readonly kind: 'certificate'; readonly der: Buffer };

const DATA = '1.2.840.113549.1.7.1';
const SIGNED_DATA = '1.2.840.113549.1.7.2';
const ENCRYPTED_DATA = '1.2.840.113549.1.7.6';
const PBES2 = '1.2.840.113549.1.5.13';
const PBKDF2 = '1.2.840.113549.1.5.12';
const PBMAC1 = '1.2.840.113549.1.5.14';
/** pbeWithSHAAnd..., RFC 7292 appendix C. */
const PKCS12_PBE = '1.2.840.113549.1.12.1.';
/** Where PBKDF2 names none, RFC 8018 A.2. */
const HMAC_SHA1 = '1.2.840.113549.2.7';
const X509_CERTIFICATE = '1.2.840.113549.1.9.22.1';

/**
 * The shell of a store. A store without MAC is refused: whoever can write the file could exchange
 * the certificate in it, or the key for a key of theirs, and nothing would show it.
 */
export function decodeShell(bytes: Uint8Array): StoreShell {
  const { offset, result } = fromBER(bytes);
  if (offset === -1) throw new Unusable('damaged', 'is damaged, or not a PKCS#12 store');
  const { authSafe, macData } = new PFX({ schema: result });
  if (authSafe.contentType === SIGNED_DATA) {
    throw new Unusable('unsupported', 'is signed with a public key instead of a passphrase');
  }
  const content = dataOf(authSafe);
  if (macData === undefined) {
    throw new Unusable(
      'unsupported',
      'has no MAC, so nothing shows whether it was changed; export it without -nomac',
    );
  }
  // MacData is the last of the shell, and its last is the count. Without, it is one.
  return { content, mac: macOf(macData, countIn(childrenOf(result)[2]) ?? 1) };
}

function macOf({ mac, macSalt }: MacData, iterations: number): StoreMac {
  const value = bytesOf(mac.digest);
  const { algorithmId, algorithmParams } = mac.digestAlgorithm;
  if (algorithmId !== PBMAC1) {
    return { kind: 'pkcs12', digest: algorithmId, value, salt: bytesOf(macSalt), iterations };
  }
  // Its own salt and count rule; those of MacData mean nothing (RFC 9579 section 4).
  const [derivation, scheme] = childrenOf(algorithmParams);
  return {
    kind: 'pbmac1',
    hmac: new AlgorithmIdentifier({ schema: scheme }).algorithmId,
    value,
    ...pbkdf2Of(new AlgorithmIdentifier({ schema: derivation })),
  };
}

/** The parts of the content; each holds bags. */
export function decodeParts(content: Uint8Array): Sealed[] {
  return AuthenticatedSafe.fromBER(content).safeContents.map((part) => {
    if (part.contentType !== ENCRYPTED_DATA) {
      return { encryption: undefined, content: dataOf(part) };
    }
    const { encryptedContentInfo: info } = new EncryptedData({ schema: part.content });
    return {
      encryption: encryptionOf(info.contentEncryptionAlgorithm),
      content: Buffer.from(info.getEncryptedContent()),
    };
  });
}

/** The keys and certificates of a decrypted part, in order; bags of other kinds are left out. */
export function decodeBags(content: Uint8Array): Bag[] {
  return SafeContents.fromBER(content).safeBags.flatMap((bag) => bagsOf(bag));
}

function bagsOf({ bagValue }: SafeBag): Bag[] {
  if (bagValue instanceof PrivateKeyInfo) {
    const content = Buffer.from(bagValue.toSchema().toBER());
    return [{ kind: 'key', encryption: undefined, content }];
  }
  if (bagValue instanceof PKCS8ShroudedKeyBag) {
    const content = bytesOf(bagValue.encryptedData);
    return [{ kind: 'key', encryption: encryptionOf(bagValue.encryptionAlgorithm), content }];
  }
  if (bagValue instanceof CertBag && bagValue.certId === X509_CERTIFICATE) {
    return [{ kind: 'certificate', der: bytesOf(bagValue.certValue) }];
  }
  if (bagValue instanceof SafeContents) return bagValue.safeBags.flatMap((bag) => bagsOf(bag));
  return [];
}

function encryptionOf({ algorithmId, algorithmParams }: AlgorithmIdentifier): StoreEncryption {
  if (algorithmId.startsWith(PKCS12_PBE)) {
    const [salt] = childrenOf(algorithmParams);
    const iterations = countIn(algorithmParams) ?? 0;
    return { kind: 'pkcs12', scheme: algorithmId, salt: bytesOf(salt), iterations };
  }
  if (algorithmId !== PBES2) {
    throw new Unusable('unsupported', `is encrypted with the algorithm ${algorithmId}`);
  }
  const pbes2 = new PBES2Params({ schema: algorithmParams });
  const { keyDerivationFunc, encryptionScheme } = pbes2;
  return {
    kind: 'pbes2',
    cipher: encryptionScheme.algorithmId,
    iv: bytesOf(encryptionScheme.algorithmParams),
    ...pbkdf2Of(keyDerivationFunc),
  };
}

type Pbkdf2 = Omit<Extract<StoreMac, { kind: 'pbmac1' }>, 'kind' | 'hmac' | 'value'>;

function pbkdf2Of({ algorithmId, algorithmParams }: AlgorithmIdentifier): Pbkdf2 {
  if (algorithmId !== PBKDF2) {
    throw new Unusable('unsupported', `derives keys with the algorithm ${algorithmId}`);
  }
  const { salt, keyLength, prf } = new PBKDF2Params({ schema: algorithmParams });
  return {
    salt: bytesOf(salt),
    iterations: countIn(algorithmParams) ?? 0,
    keySize: keyLength ?? 0,
    prf: prf?.algorithmId ?? HMAC_SHA1,
  };
}

function dataOf(info: ContentInfo): Buffer {
  if (info.contentType !== DATA) {
    throw new Unusable('unsupported', `has content of the kind ${info.contentType}`);
  }
  return bytesOf(info.content);
}

/**
 * The first number of a sequence, which is the count of iterations in all that have one. The
 * parser's own fields are zero for every number of four bytes and more (pkijs 4.0.0).
 */
function countIn(block: unknown): number | undefined {
  const count = childrenOf(block).find((child) => child instanceof Integer);
  return count === undefined ? undefined : Number(count.toBigInt());
}

function childrenOf(block: unknown): readonly BaseBlock[] {
  return block instanceof Sequence ? block.valueBlock.value : [];
}

/** A copy, also of an octet string that comes in pieces (BER). */
function bytesOf(block: unknown): Buffer {
  if (!(block instanceof OctetString))
    throw new Unusable('damaged', 'lacks bytes where some belong');
  return Buffer.from(block.getValue());
}
