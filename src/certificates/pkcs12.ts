/**
 * Opens a PKCS#12 store: one key, its certificate, and the chain that leads from it. Takes seconds
 * for a store of many iterations, so it runs in a thread (`pkcs12-worker.ts`).
 *
 * Nothing of the content is looked at before the MAC proved it.
 */
import { createPrivateKey, createPublicKey, type KeyObject, X509Certificate } from 'node:crypto';
import { isMacRight, passphraseForms, unseal } from './pkcs12-crypto.ts';
import type { PassphraseForms } from './pkcs12-crypto.ts';
import { IterationBudget } from './pkcs12-derivation.ts';
import { type Pkcs12Fault, pkcs12Fault, Unusable } from './pkcs12-fault.ts';
import { type Bag, decodeBags, decodeParts, decodeShell } from './pkcs12-structure.ts';

/** What a store holds, in the clear. */
export interface Pkcs12Content {
  readonly kind: 'content';
  /** PKCS#8, PEM, not encrypted. */
  readonly key: string;
  /** PEM: the key's own first, then the issuer of each, as far as they are there. */
  readonly certificates: readonly string[];
}

/**
 * The key of the store and the certificates that belong to it; others are left out. Of several
 * certificates for the key the one that ends last is taken. An absent passphrase and an empty one
 * open the same stores. Never throws.
 */
export function openPkcs12(
  bytes: Uint8Array,
  passphrase: string | undefined,
): Pkcs12Content | Pkcs12Fault {
  try {
    return open(bytes, passphrase);
  } catch (error) {
    if (error instanceof Unusable) return error.fault;
    // The parser's words are about its own inside.
    return pkcs12Fault('damaged', 'is damaged, or not a PKCS#12 store');
  }
}

function open(bytes: Uint8Array, passphrase: string | undefined): Pkcs12Content {
  const budget = new IterationBudget();
  const { content, mac } = decodeShell(bytes);
  const forms = passphraseForms(passphrase).find((form) => isMacRight(content, mac, form, budget));
  if (forms === undefined) {
    const wrong = passphrase === undefined ? 'needs a passphrase' : 'has another passphrase';
    throw new Unusable('wrong-passphrase', `${wrong}, or was changed after it was made`);
  }
  const bags = decodeParts(content).flatMap((part) => decodeBags(unseal(part, forms, budget)));
  const key = onlyKey(bags, forms, budget);
  const certificates = bags.flatMap((bag) =>
    bag.kind === 'certificate' ? [new X509Certificate(bag.der)] : [],
  );
  return {
    kind: 'content',
    key: key.export({ type: 'pkcs8', format: 'pem' }),
    certificates: chainOf(key, certificates).map((certificate) => certificate.toString()),
  };
}

function onlyKey(bags: readonly Bag[], forms: PassphraseForms, budget: IterationBudget): KeyObject {
  const keys = new Map<string, KeyObject>();
  for (const bag of bags) {
    if (bag.kind !== 'key') continue;
    const key = readKey(unseal(bag, forms, budget));
    const name = createPublicKey(key).export({ type: 'spki', format: 'der' }).toString('base64');
    keys.set(name, key);
  }
  const [key] = keys.values();
  if (key === undefined) throw new Unusable('no-key', 'has no private key');
  if (keys.size > 1) {
    throw new Unusable('several-keys', `has ${keys.size} private keys; export the one to use`);
  }
  return key;
}

function readKey(der: Buffer): KeyObject {
  try {
    return createPrivateKey({ key: der, format: 'der', type: 'pkcs8' });
  } catch {
    throw new Unusable('unsupported', 'has a private key of a kind that is not read');
  }
}

function chainOf(key: KeyObject, certificates: readonly X509Certificate[]): X509Certificate[] {
  const rest = new Set(
    certificates.toSorted((a, b) => b.validToDate.getTime() - a.validToDate.getTime()),
  );
  const chain: X509Certificate[] = [];
  let next = [...rest].find((certificate) => certificate.checkPrivateKey(key));
  if (next === undefined) {
    throw new Unusable('no-certificate-for-key', 'has no certificate that belongs to its key');
  }
  while (next !== undefined) {
    const current: X509Certificate = next;
    chain.push(current);
    rest.delete(current);
    if (hasIssued(current, current)) break;
    next = [...rest].find((certificate) => hasIssued(certificate, current));
  }
  return chain;
}

const hasIssued = (issuer: X509Certificate, certificate: X509Certificate): boolean =>
  certificate.checkIssued(issuer) && certificate.verify(issuer.publicKey);
