/** What is said of certificates before clients say it. */
import assert from 'node:assert/strict';
import { createPrivateKey, X509Certificate } from 'node:crypto';
import { before, describe, test } from 'node:test';
import {
  type CertificateFindings,
  certificatesOf,
  checkServerCertificate,
  type ServerCertificate,
} from '../../../src/certificates/key-and-chain.ts';
import { Secret } from '../../../src/identity/secret.ts';
import { END, type Issued, issue, issueChain } from './stores.ts';

const NOTHING: CertificateFindings = { faults: [], warnings: [] };
const DAY_MS = 86_400_000;

const fromNow = (days: number): number => Date.now() + days * DAY_MS;

/** The findings on `chain` with the key of its first, in the middle of its time. */
function findings(
  chain: readonly Issued[],
  change: Partial<ServerCertificate> = {},
): CertificateFindings {
  return checkServerCertificate({
    certificates: chain.map(({ cert }) => cert),
    key: new Secret(chain[0]?.key ?? ''),
    now: fromNow(1),
    ...change,
  });
}

describe('a certificate for a listener', () => {
  let root: Issued;
  let middle: Issued;
  let leaf: Issued;

  before(() => {
    [root, middle, leaf] = issueChain('ec');
  });

  test('is good with a chain of any length, and self-signed', () => {
    const names = ['leaf.test'];
    for (const chain of [[leaf], [leaf, middle], [leaf, middle, root]]) {
      assert.deepEqual(findings(chain, { names }), NOTHING);
    }
    assert.deepEqual(findings([root]), NOTHING);
  });

  test('has the key that belongs to it', () => {
    const rsa = issue('rsa', { key: 'rsa:2048' });
    for (const { key } of [middle, rsa]) {
      const { faults } = findings([leaf], { key: new Secret(key) });
      assert.deepEqual(faults, ['the key does not belong to the first certificate']);
    }
    assert.match(
      findings([leaf], { key: new Secret('key-canary') }).faults.join(),
      /^the key cannot/,
    );
  });

  test('has a key that its passphrase opens', () => {
    const options = { type: 'pkcs8', format: 'pem', cipher: 'aes-256-cbc' } as const;
    const sealed = createPrivateKey(leaf.key).export({ ...options, passphrase: 'right' });
    const key = new Secret(sealed);
    assert.deepEqual(findings([leaf], { key, passphrase: new Secret('right') }), NOTHING);
    for (const passphrase of [undefined, new Secret('wrong')]) {
      assert.match(findings([leaf], { key, passphrase }).faults.join(), /^the key cannot be read/);
    }
  });

  test('comes with a chain in order, each issued by the next', () => {
    const { faults } = findings([leaf, root, middle]);
    assert.deepEqual(faults, [
      'the chain is out of order: certificate 2 did not issue certificate 1',
      'the chain is out of order: certificate 3 did not issue certificate 2',
    ]);
    const impostor = issue('middle', { extensions: ['subjectKeyIdentifier=none'] });
    assert.equal(findings([leaf, impostor]).faults.length, 1);
  });

  test('is there, and can be read', () => {
    assert.deepEqual(findings([]).faults, ['there is no certificate']);
    const certificates = [leaf.cert, 'certificate-canary'];
    assert.deepEqual(findings([leaf], { certificates }).faults, ['certificate 2 cannot be read']);
  });

  test('is within its time, to the second', () => {
    const { validFromDate: from, validToDate: to } = new X509Certificate(leaf.cert);
    const at = (now: number): CertificateFindings => findings([leaf], { now });
    const ended = [`certificate 1 ended at ${to.toISOString()}`];
    assert.deepEqual(at(to.getTime() + 1), { faults: ended, warnings: [] });
    assert.deepEqual(at(to.getTime()).faults, []);
    const early = [`certificate 1 is not valid before ${from.toISOString()}`];
    assert.deepEqual(at(from.getTime() - 1), { faults: early, warnings: [] });
    assert.deepEqual(at(from.getTime()), NOTHING);
    assert.deepEqual(at(to.getTime() - 14 * DAY_MS), NOTHING);
    const soon = [`certificate 1 ends within 14 days, at ${to.toISOString()}`];
    assert.deepEqual(at(to.getTime() - 14 * DAY_MS + 1), { faults: [], warnings: soon });
  });

  test('is warned of when another of its chain is out of its time', () => {
    const brief = issue('brief', { days: 20 });
    const below = issue('below', { issuer: brief, extensions: [END] });
    const { faults, warnings } = findings([below, brief], { now: fromNow(21) });
    assert.deepEqual(faults, []);
    assert.match(warnings.join(), /^certificate 2 ended at \d{4}-\d\d-\d\dT/);
  });

  test('covers the names and addresses that are asked of it', () => {
    const names = 'subjectAltName=DNS:a.test,DNS:*.b.test,IP:192.0.2.1,IP:2001:db8::1';
    const many = issue('common.test', { extensions: [END, names] });
    const good = ['a.test', 'A.test', 'x.b.test', '*.b.test', '192.0.2.1', '2001:db8:0::1'];
    assert.deepEqual(findings([many], { names: good }), NOTHING);
    const bad = ['b.test', 'x.y.b.test', '*.a.test', '192.0.2.2', '::1', 'common.test', ''];
    assert.deepEqual(
      findings([many], { names: bad }).faults,
      bad.map((name) => `the certificate does not cover the name ${name}`),
    );
  });

  test('is warned of when only its common name has the name', () => {
    const old = issue('old.test', { extensions: [END] });
    const { faults, warnings } = findings([old], { names: ['old.test'] });
    assert.deepEqual(faults, []);
    assert.match(warnings.join(), /^the certificate names old\.test as its common name only/);
  });

  test('is neither signed with broken hashes nor of a short key', () => {
    for (const digest of ['sha1', 'md5'] as const) {
      const weak = issue('weak', { key: 'rsa:2048', digest });
      const message = `the certificate is signed with ${digest.toUpperCase()}, which clients refuse`;
      assert.deepEqual(findings([weak]).faults, [message]);
    }
    assert.match(findings([issue('weak', { digest: 'sha1' })]).faults.join(), /with SHA1/);
    const short = issue('short', { key: 'rsa:1024' });
    assert.deepEqual(findings([short]).faults, ['the key has 1024 bits, fewer than 2048']);
  });

  test('is for servers, where it says what it is for', () => {
    const verdict = (purposes: string): string =>
      findings([issue('x', { extensions: [`extendedKeyUsage=${purposes}`] })]).faults.join();
    assert.match(verdict('clientAuth'), /^the certificate is not for servers/);
    for (const purposes of ['serverAuth', 'clientAuth,serverAuth', 'anyExtendedKeyUsage']) {
      assert.equal(verdict(purposes), '');
    }
  });
});

test('the certificates of a text are found in order, whatever is between them', () => {
  const [one, two] = [issue('one'), issue('two')];
  const text = `Bag Attributes\n${one.cert}\r\n${one.key}${two.cert.replaceAll('\n', '\r\n')}end`;
  const subjects = certificatesOf(text).map((pem) => new X509Certificate(pem).subject);
  assert.deepEqual(subjects, ['CN=one', 'CN=two']);
  assert.deepEqual(certificatesOf('none'), []);
});
