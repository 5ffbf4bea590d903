/** References and what they lead to: read, parsed, refused with the place and without the content. */
import assert from 'node:assert/strict';
import { createPrivateKey, X509Certificate } from 'node:crypto';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { loadText } from '../../../src/config/load.ts';
import { systemIo } from '../../../src/config/secrets.ts';
import { testCertificate } from '../../support/certificates.ts';
import { syncStores } from '../../support/sync-stores.ts';
import { temporaryFolder } from '../../support/temporary-folder.ts';
import type { Machine } from './loading.ts';
import { bareMachine, loaded } from './loading.ts';
import { testPkcs12 } from './pkcs12.ts';

const file = (secret: string, tls = '{}'): string => `version: 1
principals: { me: { username: u, ${secret} } }
upstreams: { web: { url: 'https://web', tls: ${tls} } }
listeners: { name: api, listen: '127.0.0.1:1', routes: { upstream: web } }
`;

const CANARY = 'hunter2-canary';

/** The one fault of a file, as path and message; the canary must not be in it. */
function fault(text: string, machine: Machine): string {
  const { faults } = loadText('/etc/sk/c.yaml', text, bareMachine(machine));
  assert.equal(faults.length, 1, JSON.stringify(faults));
  assert.equal(faults[0]?.kind, 'credential');
  assert.ok(!JSON.stringify(faults).includes(CANARY));
  return `${faults[0].path}: ${faults[0].message}`;
}

function password(machine: Machine, reference = '{ file: pw }'): string {
  const me = loaded(file(`password: ${reference}`), bareMachine(machine)).principals['me'];
  assert.ok(me?.kind === 'password');
  return me.password.reveal();
}

describe('passwords', () => {
  const at = '/etc/sidekerb/pw';

  test('a relative path starts at the folder of the configuration', () => {
    assert.equal(password({ files: { [at]: 'x' } }), 'x');
    assert.equal(password({ files: { '/run/pw': 'y' } }, '{ file: /run/pw }'), 'y');
  });

  test('one line end at the end is no part of a secret, blanks are', () => {
    assert.equal(password({ files: { [at]: ' x \n' } }), ' x ');
    assert.equal(password({ files: { [at]: 'x\r\n' } }), 'x');
    assert.equal(password({ env: { PW: 'x\n' } }, '{ env: PW }'), 'x');
  });

  test('what is no password is refused', () => {
    const text = file('password: { file: pw }');
    const path = '/etc/sk/pw';
    const refused = (content: string | Uint8Array): string =>
      fault(text, { files: { [path]: content } });
    assert.equal(refused(''), 'principals.me.password: file pw is empty');
    assert.equal(refused('\n'), 'principals.me.password: file pw is empty');
    assert.equal(
      refused(`${CANARY}\n\n`),
      'principals.me.password: file pw is no password: too long, or more than one line',
    );
    assert.equal(
      refused(`${CANARY}\0`),
      'principals.me.password: file pw is no password: too long, or more than one line',
    );
    assert.equal(
      refused(CANARY.repeat(100)),
      'principals.me.password: file pw is no password: too long, or more than one line',
    );
    assert.equal(
      refused(Uint8Array.of(0xff, 0xff)),
      'principals.me.password: file pw is not text in UTF-8',
    );
    assert.equal(fault(text, {}), 'principals.me.password: file pw does not exist');
    assert.equal(
      fault(file('password: { env: PW }'), { env: { PW: '' } }),
      'principals.me.password: variable PW is empty',
    );
  });
});

describe('NT hashes', () => {
  test('32 hex digits become 16 bytes', () => {
    const config = loaded(
      file('ntHash: { env: H }'),
      bareMachine({ env: { H: 'A4F49C406510BDCAB6824EE7C30FD852' } }),
    );
    const me = config.principals['me'];
    assert.ok(me?.kind === 'nt-hash');
    assert.equal(me.ntHash.reveal().toString('hex'), 'a4f49c406510bdcab6824ee7c30fd852');
  });

  test('anything else is refused', () => {
    for (const hash of [
      CANARY,
      'a4f49c406510bdcab6824ee7c30fd85',
      'g'.repeat(32),
      ` ${'a'.repeat(32)}`,
    ]) {
      assert.equal(
        fault(file('ntHash: { env: H }'), { env: { H: hash } }),
        'principals.me.ntHash: variable H is no NT hash: wanted 32 hex digits',
      );
    }
  });
});

describe('certificates and keys', () => {
  const { cert, key, ca } = testCertificate();
  const other = testCertificate({ kind: 'rsa-sha256' });
  const pem = '{ cert: /c, key: { file: /k } }';
  const base = { PW: 'x' };
  const tls = (settings: string): string => file('password: { env: PW }', settings);
  const tlsFault = (settings: string, files: Machine['files']): string =>
    fault(tls(settings), { env: base, files: files ?? {} });

  test('a bundle becomes one text per certificate', () => {
    const io = bareMachine({ env: base, files: { '/ca': `comment\n${ca}${other.ca}` } });
    const found = loaded(tls('{ ca: /ca, extraCa: { file: /ca } }'), io).upstreams['web']?.tls;
    assert.deepEqual(
      found?.ca?.map((text) => text.trim()),
      [ca.trim(), other.ca.trim()],
    );
    assert.equal(found?.extraCa.length, 2);
  });

  test('a certificate and its key are kept as PEM', () => {
    const io = bareMachine({ env: base, files: { '/c': cert, '/k': key } });
    const identity = loaded(tls(pem), io).upstreams['web']?.tls?.identity;
    assert.ok(identity !== undefined);
    assert.equal(identity.key.reveal().trim(), key.trim());
  });

  test('a PKCS#12 is opened by its passphrase, from a file or as base64 from a variable', () => {
    const store = testPkcs12('opens it');
    const env = { ...base, PASS: 'opens it', STORE: store.toString('base64') };
    const io = bareMachine({ env, files: { '/p': store } });
    const stores = syncStores;
    for (const reference of ['{ file: /p }', '{ env: STORE }']) {
      const text = tls(`{ pkcs12: ${reference}, passphrase: { env: PASS } }`);
      const { config } = loadText('c', text, io, { stores });
      const identity = config?.upstreams['web']?.tls?.identity;
      assert.ok(identity !== undefined);
      const leaf = new X509Certificate(identity.cert);
      assert.ok(leaf.checkPrivateKey(createPrivateKey(identity.key.reveal())));
    }
    const wrong = bareMachine({ env: { ...env, PASS: CANARY }, files: { '/p': store } });
    const text = tls('{ pkcs12: { file: /p }, passphrase: { env: PASS } }');
    const { faults } = loadText('c', text, wrong, { stores });
    assert.equal(faults.length, 1);
    assert.match(faults[0]?.message ?? '', /^file \/p .*passphrase/);
    assert.ok(!JSON.stringify(faults).includes(CANARY));
  });

  test('what is faulty is refused before any port opens (I8)', () => {
    assert.equal(
      tlsFault('{ ca: /ca }', { '/ca': key }),
      'upstreams.web.tls.ca: file /ca holds no PEM certificate, or a damaged one',
    );
    assert.equal(
      tlsFault('{ ca: /ca }', { '/ca': ca.replace('MII', 'MIJ') }),
      'upstreams.web.tls.ca: file /ca holds no PEM certificate, or a damaged one',
    );
    assert.equal(tlsFault('{ ca: /ca }', {}), 'upstreams.web.tls.ca: file /ca does not exist');
    assert.equal(
      tlsFault(pem, { '/c': cert, '/k': cert }),
      'upstreams.web.tls.key: file /k is no PEM key, or the passphrase is wrong',
    );
    assert.equal(
      tlsFault(pem, { '/c': cert, '/k': other.key }),
      'upstreams.web.tls.key: file /k does not belong to the first certificate of cert',
    );
  });
});

describe('the machine', () => {
  test('a file is read up to 1 MiB, a folder and a longer file are refused', () => {
    const folder = mkdtempSync(join(temporaryFolder(), 'io-'));
    writeFileSync(join(folder, 'fits'), Buffer.alloc(1_048_576));
    writeFileSync(join(folder, 'long'), Buffer.alloc(1_048_577));
    assert.equal(systemIo.readFile(join(folder, 'fits')).length, 1_048_576);
    assert.throws(() => systemIo.readFile(join(folder, 'long')), { code: 'EFBIG' });
    assert.throws(() => systemIo.readFile('/dev/zero'), { code: 'EFBIG' });
    assert.throws(() => systemIo.readFile(folder), { code: 'EISDIR' });
  });
});
