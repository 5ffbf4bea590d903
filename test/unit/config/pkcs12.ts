/** A PKCS#12 store with a certificate and its key, made at test time by the openssl command. */
import { execFileSync } from 'node:child_process';
import { testCertificate } from '../../support/certificates.ts';

/** The store's bytes; `passphrase` opens it. */
export function testPkcs12(passphrase: string): Buffer {
  const { certFile, keyFile } = testCertificate();
  const files = ['-in', certFile, '-inkey', keyFile];
  return execFileSync('openssl', ['pkcs12', '-export', ...files, '-passout', 'stdin'], {
    input: `${passphrase}\n`,
  });
}
