/**
 * Reads and parses every credential that the file names, before any port opens (I8): passwords, NT
 * hashes, certificates, keys, keytabs. Faults go to one list with their paths; content goes into
 * `Secret`. A credential cache may be absent, as tickets come and go: that is a warning.
 */

import { createPrivateKey, X509Certificate } from 'node:crypto';
import type { KeyObject } from 'node:crypto';
import { certificatesOf, checkServerCertificate } from '../certificates/key-and-chain.ts';
import { decodeCredentialCache } from '../identity/credential-cache.ts';
import type { PasswordHash } from '../identity/hash-form.ts';
import { parseHtpasswd } from '../identity/htpasswd.ts';
import { parseJwks } from '../identity/jwks.ts';
import { decodeKeytab, encodeKeytab } from '../identity/keytab.ts';
import { realmOf } from '../identity/principal-name.ts';
import { Secret } from '../identity/secret.ts';
import { createServerCertificate, type ServerCertificate } from '../identity/server-certificate.ts';
import type { TlsIdentity } from '../identity/tls-identity.ts';
import type { JwksSource, KerberosPart } from './config.ts';
import type { UpstreamEntry } from './contract.ts';
import type { Finding, KeyPath } from './faults.ts';
import { formatPath } from './faults.ts';
import { type KerberosRealms, readRealms, SYSTEM_CONFIG } from './kerberos-realms.ts';
import type { SecretReference } from './schema.ts';
import type { Reading, ReferenceReader } from './secrets.ts';
import type { StoreTable } from './store-table.ts';
import { isUrl } from './urls.ts';

/** Windows takes 127 characters at the console and 256 in all; beyond this it is another file. */
const MAX_PASSWORD = 1024;

type TlsEntry = Pick<NonNullable<UpstreamEntry['tls']>, 'cert' | 'key' | 'pkcs12' | 'passphrase'>;

export interface CredentialSettings {
  readonly stores: StoreTable;
  /** Fingerprints of certificates that are in use already: their end is a warning. */
  readonly shown: ReadonlySet<string>;
  /** Milliseconds since 1970. */
  readonly wall: number;
}

/** The keys of one service name. */
export interface ServiceKeys {
  readonly spn: string;
  /** A keytab. */
  readonly keys: Secret<Buffer>;
  readonly fingerprint: string;
}

export class CredentialLoader {
  readonly findings: Finding[] = [];
  /** `PATH: message`. */
  readonly warnings: string[] = [];
  readonly #references: ReferenceReader;
  readonly #settings: CredentialSettings;

  constructor(references: ReferenceReader, settings: CredentialSettings) {
    this.#references = references;
    this.#settings = settings;
  }

  password(reference: SecretReference, path: KeyPath): Secret<string> | undefined {
    const text = this.#take(this.#references.text(reference), reference, path);
    if (text === undefined) return undefined;
    if (text.length > MAX_PASSWORD || /\0|\r|\n/.test(text)) {
      return this.#fault(reference, path, 'is no password: too long, or more than one line');
    }
    return new Secret(text);
  }

  ntHash(reference: SecretReference, path: KeyPath): Secret<Buffer> | undefined {
    const text = this.#take(this.#references.text(reference), reference, path);
    if (text === undefined) return undefined;
    if (!/^[0-9A-Fa-f]{32}$/.test(text))
      return this.#fault(reference, path, 'is no NT hash: wanted 32 hex digits');
    return new Secret(Buffer.from(text, 'hex'));
  }

  /** A keytab that has keys of `principal`. */
  keytab(file: string, principal: string, path: KeyPath): KerberosPart | undefined {
    const bytes = this.#take(this.#references.file(file), file, path);
    if (bytes === undefined) return undefined;
    const entries = decodeKeytab(bytes);
    if (entries === undefined) return this.#fault(file, path, 'is no keytab of format 0x502');
    const own = entries.filter((entry) => entry.principal === principal);
    if (own.length === 0) return this.#fault(file, path, `has no key of ${principal}`);
    const fingerprint = new Secret(encodeKeytab(own)).fingerprint();
    return { source: 'keytab', principal, path: this.#references.locate(file), fingerprint };
  }

  /**
   * The keys of the service name `spn`, in any realm unless it names one. Without a name the file must
   * have keys of one alone. `path` is that of the entry.
   */
  serviceKeys(file: string, spn: string | undefined, path: KeyPath): ServiceKeys | undefined {
    const at = [...path, 'keytab'];
    const bytes = this.#take(this.#references.file(file), file, at);
    if (bytes === undefined) return undefined;
    const entries = decodeKeytab(bytes);
    if (entries === undefined) return this.#fault(file, at, 'is no keytab of format 0x502');
    const names = new Set(entries.map(({ principal }) => serviceOf(principal)));
    const [only] = names;
    if (spn === undefined && names.size > 1) {
      const message = 'missing; the keytab has keys of several names, and one is wanted';
      this.findings.push({ path: [...path, 'spn'], message });
      return undefined;
    }
    const name = spn ?? only;
    if (name === undefined) return this.#fault(file, at, 'has no keys');
    const own = entries.filter(
      ({ principal }) => principal === name || serviceOf(principal) === name,
    );
    if (own.length === 0) return this.#fault(file, at, `has no key of ${name}`);
    const keys = new Secret(encodeKeytab(own));
    return { spn: name, keys, fingerprint: keys.fingerprint() };
  }

  /** A FILE credential cache; what is wrong with its content is a warning. */
  ccache(name: string, principal: string, path: KeyPath): KerberosPart {
    const file = name.replace(/^FILE:/, '');
    const reading = this.#references.file(file);
    const fault = 'fault' in reading ? reading.fault : cacheFault(reading.value, principal);
    if (fault !== undefined) this.warnings.push(`${formatPath(path)}: file ${file} ${fault}`);
    return { source: 'ccache', principal, path: this.#references.locate(file) };
  }

  /** The Kerberos configuration that the file names, else the environment's; undefined: the system's. */
  kerberosConfig(file: string | undefined, path: KeyPath): string | undefined {
    if (file === undefined) return this.environment('KRB5_CONFIG');
    const reading = this.#references.file(file);
    if ('fault' in reading) this.findings.push({ path, message: `file ${file} ${reading.fault}` });
    return this.#references.locate(file);
  }

  /** The realms that the configuration in force names; a file that cannot be read names none. */
  kerberosRealms(file: string | undefined): KerberosRealms {
    const own = file === undefined ? undefined : this.#references.locate(file);
    const files = own ?? this.environment('KRB5_CONFIG') ?? SYSTEM_CONFIG;
    return readRealms(files, {
      text: (path) => {
        const reading = this.#references.file(path);
        return 'fault' in reading ? undefined : reading.value.toString('utf8');
      },
      names: (folder) => this.#references.names(folder),
    });
  }

  /** A variable of the process that names no secret. */
  environment(name: string): string | undefined {
    return this.#references.environment(name);
  }

  /** The users of an htpasswd file. */
  users(reference: SecretReference, path: KeyPath): ReadonlyMap<string, PasswordHash> | undefined {
    const text = this.#take(this.#references.text(reference), reference, path);
    if (text === undefined) return undefined;
    const parsed = parseHtpasswd(text);
    return 'fault' in parsed ? this.#fault(reference, path, parsed.fault) : parsed.users;
  }

  /** The keys of an issuer, or where they are to be had: no network is used here (I8). */
  jwks(source: string, path: KeyPath): JwksSource | undefined {
    if (isUrl(source)) return { kind: 'url', url: source };
    const text = this.#take(this.#references.text(source), source, path);
    if (text === undefined) return undefined;
    const parsed = parseJwks(text);
    if ('fault' in parsed) return this.#fault(source, path, parsed.fault);
    return { kind: 'file', path: this.#references.locate(source), keys: parsed.keys };
  }

  /** PEM certificates, one string each. */
  certificates(reference: SecretReference | string, path: KeyPath): string[] | undefined {
    const text = this.#take(this.#references.text(reference), reference, path);
    if (text === undefined) return undefined;
    const blocks = text.match(/-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g) ?? [];
    const isSound =
      blocks.length > 0 && blocks.every((block) => parseCertificate(block) !== undefined);
    return isSound
      ? blocks
      : this.#fault(reference, path, 'holds no PEM certificate, or a damaged one');
  }

  /** Our own certificate and key; undefined where the entry has none or they are faulty. */
  identity(tls: TlsEntry, path: KeyPath): TlsIdentity | undefined {
    const passphrase =
      tls.passphrase === undefined
        ? undefined
        : this.#passphrase(tls.passphrase, [...path, 'passphrase']);
    if (tls.passphrase !== undefined && passphrase === undefined) return undefined;
    if (tls.pkcs12 !== undefined) return this.#pkcs12(tls.pkcs12, [...path, 'pkcs12'], passphrase);
    if (tls.cert === undefined || tls.key === undefined) return undefined;
    return this.#pem({ cert: tls.cert, key: tls.key }, path, passphrase);
  }

  /** A certificate towards callers; undefined where it is faulty. */
  serverCertificate(tls: TlsEntry, path: KeyPath): ServerCertificate | undefined {
    const identity = this.identity(tls, path);
    if (identity === undefined) return undefined;
    const { cert, key } = identity;
    const made = createServerCertificate(cert, key);
    const { wall: now, shown } = this.#settings;
    const { faults, warnings } = checkServerCertificate({
      certificates: certificatesOf(cert),
      key,
      now,
    });
    const at = [...path, tls.pkcs12 === undefined ? 'cert' : 'pkcs12'];
    const from = tls.pkcs12 ?? tls.cert ?? '';
    const isShown = shown.has(made.fingerprint);
    for (const fault of faults) {
      if (isShown) this.warnings.push(`${formatPath(at)}: ${describe(from)}: ${fault}`);
      else this.#fault(from, at, `cannot be shown to callers: ${fault}`);
    }
    for (const warning of warnings) {
      this.warnings.push(`${formatPath(at)}: ${describe(from)}: ${warning}`);
    }
    return isShown || faults.length === 0 ? made : undefined;
  }

  #pem(
    from: { cert: SecretReference | string; key: SecretReference },
    path: KeyPath,
    passphrase: string | undefined,
  ): TlsIdentity | undefined {
    const chain = this.certificates(from.cert, [...path, 'cert']);
    const keyPath = [...path, 'key'];
    const key = this.#take(this.#references.text(from.key), from.key, keyPath);
    if (chain === undefined || key === undefined) return undefined;
    const parsed = parseKey(key, passphrase);
    if (parsed === undefined)
      return this.#fault(from.key, keyPath, 'is no PEM key, or the passphrase is wrong');
    if (parseCertificate(chain[0] ?? '')?.checkPrivateKey(parsed) !== true) {
      return this.#fault(from.key, keyPath, 'does not belong to the first certificate of cert');
    }
    return {
      cert: `${chain.join('\n')}\n`,
      // Decrypted here, once.
      key: new Secret(parsed.export({ type: 'pkcs8', format: 'pem' })),
    };
  }

  #pkcs12(
    reference: SecretReference,
    path: KeyPath,
    passphrase: string | undefined,
  ): TlsIdentity | undefined {
    const bytes = this.#take(this.#references.bytes(reference), reference, path);
    if (bytes === undefined) return undefined;
    const source = { pkcs12: new Secret(bytes), passphrase: wrap(passphrase) };
    const store = this.#settings.stores.get(source);
    if (store.kind === 'fault') return this.#fault(reference, path, store.message);
    return { cert: store.certificates.join(''), key: store.key };
  }

  #passphrase(reference: SecretReference, path: KeyPath): string | undefined {
    return this.#take(this.#references.text(reference), reference, path);
  }

  #take<T>(reading: Reading<T>, reference: SecretReference | string, path: KeyPath): T | undefined {
    return 'fault' in reading ? this.#fault(reference, path, reading.fault) : reading.value;
  }

  #fault(reference: SecretReference | string, path: KeyPath, fault: string): undefined {
    this.findings.push({ path, message: `${describe(reference)} ${fault}`, kind: 'credential' });
    return undefined;
  }
}

/** The name without its realm. */
const serviceOf = (principal: string): string => {
  const realm = realmOf(principal);
  return realm === undefined ? principal : principal.slice(0, -realm.length - 1);
};

/** Why nobody can log in with a cache as it stands. */
function cacheFault(bytes: Buffer, principal: string): string | undefined {
  if (bytes.length === 0) return 'is empty: there are no tickets yet';
  const contents = decodeCredentialCache(bytes);
  if (contents === undefined) return 'is no credential cache of type FILE';
  if (contents.principal !== principal) return `has tickets of ${contents.principal}`;
  return contents.tickets === 0 ? 'has no tickets yet' : undefined;
}

function describe(reference: SecretReference | string): string {
  if (typeof reference === 'string') return `file ${reference}`;
  return 'env' in reference ? `variable ${reference.env}` : `file ${reference.file}`;
}

function wrap(passphrase: string | undefined): Secret<string> | undefined {
  return passphrase === undefined ? undefined : new Secret(passphrase);
}

function parseCertificate(pem: string): X509Certificate | undefined {
  try {
    return new X509Certificate(pem);
  } catch {
    // Which byte of a public certificate is wrong helps nobody; the caller names the file.
    return undefined;
  }
}

function parseKey(pem: string, passphrase: string | undefined): KeyObject | undefined {
  try {
    return createPrivateKey({
      key: pem,
      format: 'pem',
      ...(passphrase === undefined ? {} : { passphrase }),
    });
  } catch {
    // The caller names the file and the two likely causes.
    return undefined;
  }
}
