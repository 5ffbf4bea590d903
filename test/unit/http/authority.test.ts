/** The syntax of authorities: rows D3, D10, D13, D15 and D16 of the hostile inputs. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isAuthority, isAuthorityWithPort, parseAuthority } from '../../../src/http/authority.ts';

/** Whether the text is an authority, between bytes that would change it if they were read. */
function isOne(text: string, check = isAuthority): boolean {
  const bytes = Buffer.from(`a:1${text}1.b:2`, 'latin1');
  return check(bytes, 3, 3 + text.length);
}

test('hosts are lower-cased and come without brackets and without the root dot', () => {
  assert.deepEqual(parseAuthority('App.Corp.Example:8443'), {
    host: 'app.corp.example',
    port: 8443,
    ipv6: false,
  });
  assert.deepEqual(parseAuthority('[2001:DB8::1]'), {
    host: '2001:db8::1',
    port: undefined,
    ipv6: true,
  });
  assert.deepEqual(parseAuthority('[::ffff:127.0.0.1]:1'), {
    host: '::ffff:127.0.0.1',
    port: 1,
    ipv6: true,
  });
  assert.deepEqual(parseAuthority('localhost.'), {
    host: 'localhost',
    port: undefined,
    ipv6: false,
  });
  assert.deepEqual(parseAuthority('a_b.c:65535'), { host: 'a_b.c', port: 65_535, ipv6: false });
  assert.deepEqual(parseAuthority('192.168.0.255'), {
    host: '192.168.0.255',
    port: undefined,
    ipv6: false,
  });
  assert.deepEqual(parseAuthority('1e100.net:080'), { host: '1e100.net', port: 80, ipv6: false });
});

const label = 'a'.repeat(63);
const longest = `${label}.${label}.${label}.${'a'.repeat(61)}`;
const refused: Readonly<Record<string, readonly string[]>> = {
  D3: [
    '',
    ' ',
    'a b',
    ' a',
    'a ',
    'a,b',
    'a@b',
    'a/b',
    'a\\b',
    'a?',
    'a#',
    'a%41',
    'a:0',
    'a:00',
    'a:65536',
    'a:+80',
    'a:-1',
    'a: 80',
    'a:80 ',
    'a:',
    ':80',
    'a:b',
    'a:80:80',
    'a:000080',
    "a'b",
    'a*',
    'a;b',
    'a\0',
    '..',
    '.',
    '.a',
    'a..b',
  ],
  D10: [
    '::1',
    '::1:443',
    '[::1',
    '::1]',
    '[]',
    '[::1]443',
    '[::1]:',
    '[::1]:0',
    '[::1] ',
    '[1.2.3.4]',
    '[a]',
    '[::1]:99999',
  ],
  D13: [
    '2130706433',
    '9',
    '1.2.a.4',
    '1.-.3.4',
    '1.2_.3.4',
    '0x9',
    'a.9',
    '0x7f.1',
    '0177.0.0.1',
    '127.1',
    '127.0.0.1.1',
    '256.0.0.1',
    '0x7f000001',
    '0X',
    '0x',
    'a.5',
    'a.0x5',
    '1.2.3.00',
    '\uff11.2.3.4',
  ],
  D15: ['[fe80::1%25eth0]', '[fe80::1%eth0]', '[v1.x]', '[::1%]'],
  D16: [`${label}a`, `${longest}a`, 'xn--\u00fc', 'b\u00fccher.example', 'a\u0165', 'a..'],
};

for (const [row, list] of Object.entries(refused)) {
  test(`${row}: what is no authority is refused`, () => {
    for (const text of list) {
      assert.equal(parseAuthority(text), undefined, text);
      if (!/[\u0100-\uffff]/.test(text)) assert.equal(isOne(text), false, text);
    }
  });
}

test('D16: 63 bytes in a label and 253 in a name are the most', () => {
  assert.equal(longest.length, 253);
  assert.equal(parseAuthority(longest)?.host, longest);
  assert.equal(parseAuthority(`${longest}.:80`)?.host, longest);
  assert.equal(isOne(`${longest}.:80`), true);
  assert.equal(parseAuthority('xn--bcher-kva.example')?.host, 'xn--bcher-kva.example');
});

test('a last label that only begins like a number is a name', () => {
  for (const text of ['a.1b', '3com', 'a.0xg', '1.2.3.4a', label, `a.${label}`]) {
    assert.equal(parseAuthority(text)?.host, text);
    assert.equal(isOne(`${text}:80`), true);
  }
});

test('D10: a tunnel needs a port', () => {
  assert.equal(isOne('h', isAuthorityWithPort), false);
  assert.equal(isOne('[::1]', isAuthorityWithPort), false);
  assert.equal(isOne('h:443', isAuthorityWithPort), true);
  assert.equal(isOne('[::1]:443', isAuthorityWithPort), true);
});

test('both checks agree on every short string over the bytes that matter', () => {
  const alphabet = ['a', '0', '1', '.', ':', '[', ']', 'x', '-'];
  let texts = [''];
  for (let length = 0; length < 5; length += 1) {
    texts = texts.flatMap((text) => alphabet.map((char) => text + char));
    for (const text of texts) assert.equal(isOne(text), parseAuthority(text) !== undefined, text);
  }
});

test('an accepted host is what a URL parser reads too', () => {
  const alphabet = ['a', '0', '1', '.', ':', 'x', '-'];
  let texts = [''];
  for (let length = 0; length < 6; length += 1) {
    texts = texts.flatMap((text) => alphabet.map((char) => text + char));
    for (const text of texts) {
      const parsed = parseAuthority(text);
      if (parsed === undefined) continue;
      assert.equal(new URL(`ws://${text}/`).hostname.replace(/\.$/, ''), parsed.host, text);
    }
  }
});
