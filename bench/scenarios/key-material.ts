/** Certificates and stores of the benches, made by the openssl command with its own algorithms. */

import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';

export interface KeyMaterial {
  readonly certFile: string;
  readonly keyFile: string;
}

export const STORE_PASSPHRASE = 'bench';

const run = promisify(execFile);

export async function makeCertificate(folder: string, key: 'rsa' | 'ec'): Promise<KeyMaterial> {
  const [keyFile, certFile] = [join(folder, 'bench.key'), join(folder, 'bench.pem')];
  const kind = key === 'rsa' ? ['rsa:2048'] : ['ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1'];
  const names = ['-subj', '/CN=localhost', '-addext', 'subjectAltName=DNS:localhost,IP:127.0.0.1'];
  const how = ['-nodes', '-days', '2', '-newkey', ...kind, ...names];
  await run('openssl', ['req', '-x509', ...how, '-keyout', keyFile, '-out', certFile]);
  return { certFile, keyFile };
}

/** A PKCS#12 store whose key, certificate and checksum take so many iterations each. */
export async function makeStore(
  folder: string,
  key: 'rsa' | 'ec',
  iterations: number,
): Promise<string> {
  const { certFile, keyFile } = await makeCertificate(folder, key);
  const store = join(folder, 'bench.p12');
  const from = ['-in', certFile, '-inkey', keyFile, '-out', store];
  const how = ['-iter', String(iterations), '-passout', `pass:${STORE_PASSPHRASE}`];
  await run('openssl', ['pkcs12', '-export', ...from, ...how]);
  return store;
}
