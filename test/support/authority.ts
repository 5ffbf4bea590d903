/**
 * A certificate authority of a test's own, made by the openssl command: issues certificates of callers and
 * servers with the names that a test wants.
 */
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { temporaryFolder } from './temporary-folder.ts';

export interface IssuedCertificate {
  /** PEM texts. */
  readonly cert: string;
  readonly key: string;
  readonly certFile: string;
  readonly keyFile: string;
}

export interface CertificateRequest {
  /** Parts of a distinguished name in openssl's form: `/O=Example/CN=alice`. Default: `/CN=<name>`. */
  readonly subject?: string;
  /** In openssl's form: `URI:spiffe://a/b,DNS:c`. Default: none. */
  readonly names?: string;
  readonly keyType?: 'ec' | 'rsa';
}

let made = 0;

export class Authority {
  /** PEM text. */
  readonly ca: string;
  readonly caFile: string;
  readonly #caKeyFile: string;

  constructor(name: string) {
    const stem = join(temporaryFolder(), `authority${(made += 1)}`);
    this.caFile = `${stem}.pem`;
    this.#caKeyFile = `${stem}.key`;
    openssl(['-subj', `/CN=${name}`, '-keyout', this.#caKeyFile, '-out', this.caFile, ...EC]);
    this.ca = readFileSync(this.caFile, 'utf8');
  }

  issue(
    name: string,
    { subject, names, keyType = 'ec' }: CertificateRequest = {},
  ): IssuedCertificate {
    const stem = join(temporaryFolder(), `issued${(made += 1)}`);
    const [certFile, keyFile] = [`${stem}.pem`, `${stem}.key`];
    openssl([
      '-subj',
      subject ?? `/CN=${name}`,
      '-keyout',
      keyFile,
      '-out',
      certFile,
      '-CA',
      this.caFile,
      '-CAkey',
      this.#caKeyFile,
      '-addext',
      'basicConstraints=critical,CA:FALSE',
      ...(names === undefined ? [] : ['-addext', `subjectAltName=${names}`]),
      ...(keyType === 'ec' ? EC : ['-newkey', 'rsa:2048']),
    ]);
    return {
      cert: readFileSync(certFile, 'utf8'),
      key: readFileSync(keyFile, 'utf8'),
      certFile,
      keyFile,
    };
  }
}

const EC = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1'];

function openssl(options: readonly string[]): void {
  execFileSync('openssl', ['req', '-x509', '-nodes', '-days', '2', ...options], {
    stdio: ['ignore', 'ignore', 'pipe'],
  });
}
