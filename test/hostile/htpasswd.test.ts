/**
 * Damaged and hostile user files: each is a fault with its line, or users; never an error, never a
 * user who was guessed, and never a word of the content in the fault.
 */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import * as fc from 'fast-check';
import { parseHtpasswd } from '../../src/identity/htpasswd.ts';

const BCRYPT = '$2y$10$abcdefghijklmnopqrstuu5s2v8.iXieOjg/.AySBTTZIIVFJeBui';
const SHA256 = '$5$saltstring$5B8vYYiY.CVt1RlTTf8KbXBH3hsxY/GNooZaBBGWEc5';
const SHA512 =
  '$6$saltstring$svn8UoSVapNtMuq1ukKS4tPQd8iKwSMHWjl/O817G3uBnIFNjnQJuesI68u4OTLiBFdcbYEdFCoEOfaS35inz1';
const APR1 = '$apr1$r31.....$HqJZimcKQFAMYayBlzkrA/';
const ALL = [BCRYPT, SHA256, SHA512, APR1];

function faultOf(text: string): string | undefined {
  const reading = parseHtpasswd(text);
  return 'fault' in reading ? reading.fault : undefined;
}

const rows: [title: string, text: string, fault: RegExp][] = [
  ['a line of 1 MB', `a:${'x'.repeat(1_000_000)}`, /^line 1: the hash is of a kind/],
  ['a name of 1 MB', `${'x'.repeat(1_000_000)}:${APR1}`, /^line 1: .* longer than 256 characters$/],
  ['a salt of 1 MB', `a:$5$${'x'.repeat(1_000_000)}$`, /^line 1: .* malformed$/],
  ['rounds of 1 MB', `a:$6$rounds=${'9'.repeat(1_000_000)}$a$b`, /^line 1: .* malformed$/],
  ['more than 1 MiB', `#${'x'.repeat(1024 * 1024)}\na:${APR1}`, /^the file is larger than 1 MiB$/],
  ['more than 1 MiB in UTF-8 only', `#${'€'.repeat(360_000)}\na:${APR1}`, /larger than 1 MiB$/],
  ['a byte order mark', `\ufeffa:${APR1}`, /^line 1: .* byte order mark/],
  ['UTF-16 read as UTF-8', Buffer.from(`a:${APR1}`, 'utf16le').toString(), /^line 1: .* control/],
  ['Latin-1 read as UTF-8', Buffer.from(`é:${APR1}`, 'latin1').toString(), /^line 1: .* not UTF-8/],
  ['half a surrogate pair', `a\ud800:${APR1}`, /^line 1: .* not UTF-8$/],
  ['a NUL in a name', `a\0b:${APR1}`, /^line 1: .* control characters$/],
  ['a NUL behind a hash', `a:${APR1}\0`, /^line 1: .* malformed$/],
  ['lines that end in CR', `a:${APR1}\rb:${APR1}`, /^line 1: the apr1 hash is malformed$/],
  ['a blank before a comment', ` # a\nb:${APR1}`, /^line 1: no colon/],
  ['a blank behind a hash', `a:${BCRYPT} `, /^line 1: .* malformed$/],
  ['no hash', `a:${APR1}\nb:\n`, /^line 2: the user has no hash$/],
  ['no hash but fields', `a::${APR1}`, /^line 1: the user has no hash$/],
  ['a prefix alone', 'a:$2y$', /^line 1: .* malformed$/],
  ['a user twice', `a:${APR1}\na:${APR1}`, /^line 2: the user stands in line 1 already$/],
  ['a bcrypt cost of 99', 'a:$2y$99$', /^line 1: .* above 15/],
  ['a bcrypt cost of 0', `a:${BCRYPT.replace('10', '00')}`, /^line 1: .* below 4$/],
  ['a bcrypt cost with a sign', `a:${BCRYPT.replace('10', '+9')}`, /^line 1: .* malformed$/],
  ['a bcrypt cost of three digits', `a:${BCRYPT.replace('10', '010')}`, /^line 1: .* malformed$/],
  ['a bcrypt cost in other digits', `a:${BCRYPT.replace('10', '１０')}`, /^line 1: .* malformed$/],
  ['999999999 rounds', `a:${SHA512.replace('$6$', '$6$rounds=999999999$')}`, /^line 1: .* above/],
  ['0 rounds', `a:${SHA512.replace('$6$', '$6$rounds=0$')}`, /^line 1: .* malformed$/],
  ['rounds with a 0 first', `a:${SHA256.replace('$5$', '$5$rounds=05000$')}`, /malformed$/],
  ['rounds below 0', `a:${SHA256.replace('$5$', '$5$rounds=-5000$')}`, /malformed$/],
  ['rounds twice', `a:${SHA256.replace('$5$', '$5$rounds=5000$rounds=5000$')}`, /malformed$/],
  ['rounds of 2^53 and more', `a:${SHA256.replace('$5$', `$5$rounds=${2n ** 64n}$`)}`, /above/],
  ['odd rounds and no salt', `a:$5$rounds=05000$${SHA256.slice(-43)}`, /malformed$/],
  ['no salt', `a:$6$$${SHA512.slice(-86)}`, /^line 1: .* malformed$/],
  ['a salt of 17 letters', `a:${SHA256.replace('saltstring', 's'.repeat(17))}`, /malformed$/],
  ['a salt that is not ASCII', `a:${SHA256.replace('saltstring', 'sält')}`, /malformed$/],
  ['an apr1 salt of 9 letters', `a:${APR1.replace('r31.....', 's'.repeat(9))}`, /malformed$/],
];

describe('a hostile user file', () => {
  for (const [title, text, fault] of rows) {
    test(`is a fault with ${title}`, () => assert.match(faultOf(text) ?? 'none', fault));
  }

  test('is a fault with any letter of a checksum that its alphabet has not', () => {
    for (const hash of ALL) {
      for (const letter of ['+', '=', '-', '_', ' ', '$', '\u00e9', '\uff21', '\u0130']) {
        for (const at of [hash.length - 20, hash.length - 1]) {
          const bad = hash.slice(0, at) + letter + hash.slice(at + 1);
          assert.match(faultOf(`a:${bad}`) ?? 'none', /^line 1: .* malformed$/, bad);
        }
      }
    }
  });

  test('is a fault with a hash that lacks a letter, has one more, or bits that mean nothing', () => {
    for (const hash of ALL) {
      for (const bad of [hash.slice(0, -1), `${hash}.`, `${hash.slice(0, -1)}z`]) {
        assert.match(faultOf(`a:${bad}`) ?? 'none', /^line 1: .* malformed$/, bad);
      }
    }
  });

  test('of 1 MiB of users is read, and of 1 MiB of blank lines is a fault', () => {
    const lines = Array.from({ length: 23_000 }, (_, i) => `u${i}:${APR1}`);
    const text = lines.join('\n').padEnd(1024 * 1024, '\n');
    assert.equal(text.length, 1024 * 1024);
    const reading = parseHtpasswd(text);
    assert.equal('users' in reading ? reading.users.size : reading.fault, 23_000);
    assert.match(faultOf(`${text}\n`) ?? 'none', /^the file is larger/);
    assert.equal(faultOf('\n'.repeat(1024 * 1024)), 'the file names no user');
  });

  test('of any text is users or a fault, which names nothing of the text', () => {
    const piece = fc.constantFrom(...ALL, ':', '$', '\n', '\r', '#', 'a', 'rounds=', '{SHA}', '\0');
    const text = fc.array(fc.oneof(piece, fc.string({ unit: 'binary', maxLength: 12 })));
    fc.assert(
      fc.property(text, fc.constantFrom('canary-Canary', 'kanarie'), (parts, canary) => {
        const reading = parseHtpasswd(parts.join(canary));
        if ('fault' in reading) assert.doesNotMatch(reading.fault, /canary|kanarie/i);
        else assert.ok(reading.users.size > 0);
      }),
      { numRuns: 1000 },
    );
  });
});
