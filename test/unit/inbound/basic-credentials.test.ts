/** Basic credentials as callers send them, well-formed and not. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import * as fc from 'fast-check';
import { decodeBasic, isBasic } from '../../../src/inbound/basic-credentials.ts';

const decode = (text: string): { user: string; password: string } | undefined => {
  const bytes = Buffer.from(`xx${text}yy`, 'latin1');
  const end = bytes.length - 2;
  if (!isBasic(bytes, 2, end)) return undefined;
  const caller = decodeBasic(bytes, 2, end);
  return caller && { user: caller.user, password: caller.password.reveal() };
};

const encode = (text: string | Uint8Array): string =>
  `Basic ${Buffer.from(text).toString('base64')}`;

describe('Basic credentials', () => {
  for (const [text, user, password] of [
    ['Aladdin:open sesame', 'Aladdin', 'open sesame'],
    ['CORP\\me:pass:with:colons', 'CORP\\me', 'pass:with:colons'],
    ['me@corp.example:', 'me@corp.example', ''],
    ['josé:Grüße €😀', 'josé', 'Grüße €😀'],
    ['\ufeffbom:x', '\ufeffbom', 'x'],
    [`${'u'.repeat(256)}:${'p'.repeat(1024)}`, 'u'.repeat(256), 'p'.repeat(1024)],
  ] as const) {
    test(`are split at the first colon: ${text.slice(0, 30)}`, () => {
      assert.deepEqual(decode(encode(text)), { user, password });
    });
  }

  test('have a scheme in any case, with any number of blanks behind it', () => {
    const token = encode('a:b').slice(6);
    for (const scheme of ['basic ', 'BASIC ', 'bAsIc    ']) {
      assert.deepEqual(decode(`${scheme}${token}`), { user: 'a', password: 'b' });
    }
  });

  for (const [what, text] of [
    ['nothing', 'Basic'],
    ['blanks alone', 'Basic   '],
    ['no colon', encode('alice')],
    ['no user', encode(':secret')],
    ['a domain without a user', encode('CORP\\:secret')],
    ['a backslash for a user', encode('\\:secret')],
    ['a NUL', encode('a\0:b')],
    ['a line end', encode('a:b\n')],
    ['DEL', encode('a:b\x7f')],
    ['a control of C1', encode('a:b\u0085')],
    ['latin1', encode(Buffer.from('jos\xe9:x', 'latin1'))],
    ['an overlong form', encode(Buffer.from([0x61, 0xc0, 0xba, 0x62]))],
    ['a surrogate', encode(Buffer.from([0x61, 0x3a, 0xed, 0xa0, 0x80]))],
    ['no padding', encode('a:bc').replace(/=+$/, '')],
    ['stray bits', 'Basic YTp='],
    ['the other alphabet', 'Basic _-__'],
    ['two tokens', `${encode('a:b')} ${encode('a:b')}`],
    ['a parameter', 'Basic realm="x"'],
    ['a user that is too long', encode(`${'u'.repeat(257)}:p`)],
    ['a password that is too long', encode(`u:${'p'.repeat(1025)}`)],
    ['a token that is too long', encode('u:'.padEnd(100_000, 'p'))],
  ] as const) {
    test(`are malformed with ${what}`, () => {
      const bytes = Buffer.from(text, 'latin1');
      assert.ok(isBasic(bytes, 0, bytes.length));
      assert.equal(decode(text), undefined);
    });
  }

  test('are not those of other schemes', () => {
    for (const text of ['', 'Basi', 'Basics YTpi', 'BasicYTpi', 'Bearer abc', 'NTLM TlRM']) {
      const bytes = Buffer.from(text);
      assert.equal(isBasic(bytes, 0, bytes.length), false, text);
    }
  });

  test('come back as they were sent, for any name and password', () => {
    const plain = fc
      .string({ unit: 'grapheme', maxLength: 40 })
      .filter((text) => !/\p{Cc}/u.test(text));
    const names = plain.filter((text) => /[^\\]$/.test(text) && !text.includes(':'));
    fc.assert(
      fc.property(names, plain, (user, password) => {
        assert.deepEqual(decode(encode(`${user}:${password}`)), { user, password });
      }),
    );
  });

  test('of any bytes are a caller or nothing, never an error', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 200 }), (bytes) => {
        const found = decode(encode(bytes));
        assert.ok(found === undefined || found.user.length > 0);
        decode(`Basic ${Buffer.from(bytes).toString('latin1')}`);
      }),
    );
  });
});
