/** Stores as the openssl command makes them, whole and broken. */
import assert from 'node:assert/strict';
import { createPrivateKey, X509Certificate } from 'node:crypto';
import { createSecureContext } from 'node:tls';
import { before, describe, test } from 'node:test';
import { assert as holds, property, uint8Array } from 'fast-check';
import { openPkcs12, type Pkcs12Content } from '../../../src/certificates/pkcs12.ts';
import { PKCS12_REASONS, type Pkcs12Fault } from '../../../src/certificates/pkcs12-fault.ts';
import { decodeParts, decodeShell } from '../../../src/certificates/pkcs12-structure.ts';
import {
  END,
  type Issued,
  issue,
  issueChain,
  keyAndCert,
  merged,
  nested,
  store,
  wide,
} from './stores.ts';

const WORD = 'passphrase-canary';

function contentOf(answer: Pkcs12Content | Pkcs12Fault): Pkcs12Content {
  assert.ok(answer.kind === 'content', answer.kind === 'fault' ? answer.message : '');
  return answer;
}

/** The reason; the message is checked for what it must never hold. */
function reasonOf(answer: Pkcs12Content | Pkcs12Fault, message?: RegExp): string {
  assert.ok(answer.kind === 'fault', 'the store was opened');
  assert.ok(!answer.message.includes(WORD));
  if (message !== undefined) assert.match(answer.message, message);
  return answer.reason;
}

const namesOf = ({ certificates }: Pkcs12Content): string[] =>
  certificates.map((pem) => new X509Certificate(pem).subject.replace('CN=', ''));

const isKeyOf = ({ key }: Pkcs12Content, issued: Issued): boolean =>
  createPrivateKey(key).equals(createPrivateKey(issued.key));

describe('a PKCS#12 store', () => {
  let ec: readonly [Issued, Issued, Issued];
  let rsa: readonly [Issued, Issued, Issued];
  let other: Issued;
  let plain: Buffer;

  before(() => {
    ec = issueChain('ec');
    rsa = issueChain('rsa:2048');
    other = issue('other');
    plain = store(WORD, keyAndCert(ec[2]));
  });

  for (const kind of ['ec', 'rsa'] as const) {
    test(`gives its ${kind} key and chain, in order, as TLS takes them`, () => {
      const [root, middle, leaf] = kind === 'ec' ? ec : rsa;
      const more = [root, middle].flatMap(({ certFile }) => ['-certfile', certFile]);
      // Of several such options openssl takes the last, so the rest is merged in.
      const bytes = merged([
        store('', ['-nokeys', '-in', root.certFile]),
        store('', ['-nokeys', '-in', other.certFile]),
        store('', [...keyAndCert(leaf), ...more]),
      ]);
      const content = contentOf(openPkcs12(bytes, ''));
      assert.deepEqual(namesOf(content), ['leaf.test', 'middle', 'root']);
      assert.ok(isKeyOf(content, leaf));
      assert.match(content.key, /^-----BEGIN PRIVATE KEY-----\n/);
      createSecureContext({ key: content.key, cert: content.certificates.join('') });
    });
  }

  test('ends its chain where the next issuer is missing', () => {
    const [root, , leaf] = ec;
    const bytes = store(WORD, [...keyAndCert(leaf), '-certfile', root.certFile]);
    assert.deepEqual(namesOf(contentOf(openPkcs12(bytes, WORD))), ['leaf.test']);
  });

  test('takes as issuer who signed, not who has the name', () => {
    const impostor = issue('middle', { extensions: ['subjectKeyIdentifier=none'] });
    const bytes = store(WORD, [...keyAndCert(ec[2]), '-certfile', impostor.certFile]);
    assert.deepEqual(namesOf(contentOf(openPkcs12(bytes, WORD))), ['leaf.test']);
  });

  test('gives the certificate that ends last, of several for its key', () => {
    const old = issue('old', { days: 10 });
    const renewed = issue('renewed', { sameKeyAs: old, days: 100 });
    for (const [first, second] of [
      [old, renewed],
      [renewed, old],
    ] as const) {
      const bytes = store(WORD, [...keyAndCert(first), '-certfile', second.certFile]);
      assert.deepEqual(namesOf(contentOf(openPkcs12(bytes, WORD))), ['renewed']);
    }
  });

  for (const word of ['x', 'ü', '€uro', 'Grüße 🔑', 'long '.repeat(40)]) {
    test(`opens with the passphrase ${word.slice(0, 10)} in both of its forms`, () => {
      const old = ['-certpbe', 'PBE-SHA1-3DES', '-keypbe', 'PBE-SHA1-3DES', '-macalg', 'sha1'];
      for (const options of [[], old]) {
        const bytes = store(word, [...keyAndCert(ec[2]), ...options]);
        assert.ok(isKeyOf(contentOf(openPkcs12(bytes, word)), ec[2]));
        assert.equal(reasonOf(openPkcs12(bytes, `${word}x`)), 'wrong-passphrase');
      }
    });
  }

  for (const options of [
    ['-iter', '2048'],
    ['-macalg', 'sha384'],
    ['-macalg', 'sha512', '-iter', '3'],
    ['-certpbe', 'AES-128-CBC', '-keypbe', 'AES-192-CBC'],
    ['-certpbe', 'NONE', '-keypbe', 'NONE'],
    ['-keypbe', 'PBE-SHA1-3DES', '-iter', '3'],
  ]) {
    test(`opens with ${options.join(' ')}`, () => {
      const bytes = store(WORD, [...keyAndCert(rsa[2]), ...options]);
      assert.ok(isKeyOf(contentOf(openPkcs12(bytes, WORD)), rsa[2]));
    });
  }

  test('without passphrase opens with none and with an empty one, in both encodings', () => {
    const usual = store('', keyAndCert(ec[2]));
    const old = store('', [...keyAndCert(ec[2]), '-certpbe', 'NONE', '-keypbe', 'NONE']);
    for (const bytes of [usual, merged([old], { password: Buffer.alloc(0) })]) {
      createSecureContext({ pfx: bytes, passphrase: '' });
      for (const word of [undefined, '']) {
        assert.ok(isKeyOf(contentOf(openPkcs12(bytes, word)), ec[2]));
      }
      assert.equal(reasonOf(openPkcs12(bytes, WORD)), 'wrong-passphrase');
    }
  });

  test('with a passphrase says so when it gets none, or another', () => {
    assert.equal(reasonOf(openPkcs12(plain, undefined), /needs a passphrase/), 'wrong-passphrase');
    for (const word of ['', WORD.slice(1), `${WORD} `]) {
      assert.equal(reasonOf(openPkcs12(plain, word)), 'wrong-passphrase');
    }
  });

  test('opens with a MAC of RFC 9579, unless its key is so short that it proves nothing', () => {
    const base = store(WORD, keyAndCert(ec[2]));
    const password = Buffer.from(WORD);
    for (const pbmac1 of [20, 32, 64]) {
      const bytes = merged([base], { password, pbmac1 });
      assert.ok(isKeyOf(contentOf(openPkcs12(bytes, WORD)), ec[2]));
      assert.equal(reasonOf(openPkcs12(bytes, 'another')), 'wrong-passphrase');
      createSecureContext({ pfx: bytes, passphrase: WORD });
    }
    const usual = merged([base], { password, pbmac1: 20, prf: 'none' });
    assert.ok(isKeyOf(contentOf(openPkcs12(usual, WORD)), ec[2]));
    for (const pbmac1 of [1, 19, 65, 70_000]) {
      const bytes = merged([base], { password, pbmac1 });
      assert.equal(reasonOf(openPkcs12(bytes, WORD), new RegExp(`${pbmac1} bytes`)), 'unsupported');
    }
  });

  test('ends its chain at a root, also where there is an older one of the same key', () => {
    const root = issue('twice', { days: 50 });
    const renewed = issue('twice', { sameKeyAs: root, days: 60 });
    const leaf = issue('leaf.test', { issuer: root, extensions: [END] });
    const bytes = merged([
      store('', ['-nokeys', '-in', root.certFile]),
      store('', ['-nokeys', '-in', renewed.certFile]),
      store('', keyAndCert(leaf)),
    ]);
    const { certificates } = contentOf(openPkcs12(bytes, ''));
    assert.equal(certificates.length, 2);
    assert.equal(certificates[1], new X509Certificate(renewed.cert).toString());
  });

  test('opens with bags in bags', () => {
    const options = ['-certpbe', 'NONE', '-keypbe', 'NONE'];
    const parts = decodeParts(decodeShell(store('', [...keyAndCert(ec[2]), ...options])).content);
    // Without the header of the sequence that each part is.
    const inner = Buffer.concat(
      parts.map(({ content }) => {
        const first = content[1] ?? 0;
        return content.subarray(first < 0x80 ? 2 : 2 + (first & 0x7f));
      }),
    );
    const length = Buffer.of(0x30, 0x82, inner.length >> 8, inner.length & 0xff);
    const bytes = merged([], { content: nested(Buffer.concat([length, inner])) });
    assert.ok(isKeyOf(contentOf(openPkcs12(bytes, '')), ec[2]));
    createSecureContext({ pfx: bytes, passphrase: '' });
  });

  test('opens with its content in pieces', () => {
    const bytes = merged([store('', keyAndCert(ec[2]))], { pieces: true });
    assert.ok(isKeyOf(contentOf(openPkcs12(bytes, '')), ec[2]));
    createSecureContext({ pfx: bytes, passphrase: '' });
  });

  test('is refused without MAC, and with one of a kind that is not read', () => {
    const bare = store(WORD, [...keyAndCert(ec[2]), '-nomac']);
    assert.equal(reasonOf(openPkcs12(bare, WORD), /no MAC.*-nomac/), 'unsupported');
    const base = store('', keyAndCert(ec[2]));
    const digest = '1.2.840.113549.2.5';
    const named = /the algorithm 1\.2\.840\.113549\.2\.5$/;
    assert.equal(reasonOf(openPkcs12(merged([base], { digest }), ''), named), 'unsupported');
    const signed = merged([base], { contentType: '1.2.840.113549.1.7.2' });
    assert.equal(reasonOf(openPkcs12(signed, ''), /public key/), 'unsupported');
  });

  test('of the legacy algorithms is refused by name, with the way to convert it', () => {
    const bytes = store(WORD, [...keyAndCert(ec[2]), '-legacy']);
    const message = /RC2-40.*openssl pkcs12 -legacy/;
    assert.equal(reasonOf(openPkcs12(bytes, WORD), message), 'unsupported');
  });

  test('has one key and its certificate, or is refused', () => {
    const one = store('', keyAndCert(ec[2]));
    const two = store('', keyAndCert(other));
    assert.equal(reasonOf(openPkcs12(merged([one, two]), ''), /2 private keys/), 'several-keys');
    assert.ok(isKeyOf(contentOf(openPkcs12(merged([one, one]), '')), ec[2]));
    const certs = store(WORD, ['-nokeys', '-in', other.certFile]);
    assert.equal(reasonOf(openPkcs12(certs, WORD)), 'no-key');
    const key = store(WORD, ['-nocerts', '-inkey', ec[2].keyFile]);
    assert.equal(reasonOf(openPkcs12(key, WORD)), 'no-certificate-for-key');
    const strange = merged([
      store('', ['-nocerts', '-inkey', ec[2].keyFile]),
      store('', ['-nokeys', '-in', other.certFile]),
    ]);
    assert.equal(reasonOf(openPkcs12(strange, '')), 'no-certificate-for-key');
  });

  test('is not computed on when it asks for too many iterations, or for none', () => {
    const base = store('', keyAndCert(ec[2]));
    const start = performance.now();
    for (const iterations of [10_000_001, 2 ** 31 - 1, 2 ** 45]) {
      assert.equal(reasonOf(openPkcs12(merged([base], { iterations }), '')), 'too-costly');
    }
    for (const iterations of [0, -1]) {
      assert.equal(reasonOf(openPkcs12(merged([base], { iterations }), '')), 'damaged');
    }
    // The least of them would take 7 s.
    assert.ok(performance.now() - start < 3000);
  });

  test('whose parts have a passphrase of their own is damaged', () => {
    const bytes = merged([store('another', keyAndCert(ec[2]))], { password: wide(WORD) });
    assert.equal(reasonOf(openPkcs12(bytes, WORD)), 'damaged');
  });

  test('cut anywhere is a fault', () => {
    for (let length = 0; length < plain.length; length += 1) {
      assert.equal(reasonOf(openPkcs12(plain.subarray(0, length), WORD)), 'damaged', `${length}`);
    }
  });

  test('with any one byte changed is a fault, or opens as it did', () => {
    const whole = contentOf(openPkcs12(plain, WORD));
    const seen = new Set<string>();
    for (let at = 0; at < plain.length; at += 1) {
      for (const mask of [0x01, 0x80, (at * 37) % 256]) {
        const changed = Buffer.from(plain);
        changed[at] = (changed[at] ?? 0) ^ mask;
        const answer = openPkcs12(changed, WORD);
        if (answer.kind === 'content') assert.deepEqual(answer, whole, `${at} ${mask}`);
        else seen.add(reasonOf(answer));
      }
    }
    assert.deepEqual([...seen].sort(), ['damaged', 'unsupported', 'wrong-passphrase']);
  });

  test('of any bytes, bare or under a right MAC, is a fault', () => {
    const known = new Set<string>(PKCS12_REASONS);
    const base = store('', ['-nocerts', '-inkey', ec[2].keyFile]);
    holds(
      property(uint8Array({ maxLength: 200 }), (bytes) => {
        assert.ok(known.has(reasonOf(openPkcs12(bytes, WORD))));
        const part = merged([base], { content: bytes });
        assert.ok(known.has(reasonOf(openPkcs12(part, ''))));
      }),
    );
  });

  test('with any one byte changed under a right MAC is a fault, or opens', () => {
    const bytes = store('', [...keyAndCert(ec[2]), '-certpbe', 'NONE', '-keypbe', 'NONE']);
    const { content } = decodeShell(bytes);
    const seen = new Set<string>();
    for (let at = 0; at < content.length; at += 1) {
      const changed = Buffer.from(content);
      changed[at] = (changed[at] ?? 0) ^ ((at * 37) % 255 || 1);
      const answer = openPkcs12(merged([], { content: changed }), '');
      seen.add(answer.kind === 'content' ? answer.kind : answer.reason);
    }
    assert.ok(seen.has('content') && seen.has('damaged'), [...seen].join());
  });
});
