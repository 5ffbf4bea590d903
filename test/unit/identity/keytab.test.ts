/** Keytab files against bytes that were put together by hand. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { decodeKeytab, encodeKeytab } from '../../../src/identity/keytab.ts';
import { join, keytabEntry, testKeytab } from '../../support/kerberos-files.ts';

const ALICE = { principal: 'alice@LAB.TEST', version: 3 };
const HTTP = { principal: 'HTTP/web.lab.test@LAB.TEST', version: 7, longVersion: 700 };

test('names and versions of keys are read, the long version before the short one', () => {
  const entries = decodeKeytab(testKeytab(ALICE, HTTP, { ...ALICE, longVersion: 0 }));
  assert.deepEqual(
    entries?.map(({ principal, version }) => [principal, version]),
    [
      ['alice@LAB.TEST', 3],
      ['HTTP/web.lab.test@LAB.TEST', 700],
      ['alice@LAB.TEST', 3],
    ],
  );
});

test('what is written is what was read, and a merged file holds the chosen entries', () => {
  const file = testKeytab(ALICE, HTTP);
  const entries = decodeKeytab(file) ?? [];
  assert.deepEqual(encodeKeytab(entries), file);
  assert.deepEqual(encodeKeytab(entries.slice(1)), testKeytab(HTTP));
  assert.deepEqual(encodeKeytab([]), Buffer.from([5, 2]));
});

test('holes are skipped, and a length of 0 ends the file', () => {
  const entry = keytabEntry(ALICE);
  const whole = join([32, entry.length], entry);
  const hole = join([32, 2 ** 32 - 10], Buffer.alloc(10, 0xff));
  const file = join([16, 0x0502], hole, whole, hole, [32, 0], 'left over');
  assert.deepEqual(
    decodeKeytab(file)?.map(({ principal }) => principal),
    ['alice@LAB.TEST'],
  );
});

test('a keytab without an entry is empty and sound', () => {
  assert.deepEqual(decodeKeytab(Buffer.from([5, 2])), []);
});

test('another format and every shortening are refused', () => {
  const file = testKeytab(ALICE, HTTP);
  for (const start of [
    [5, 1],
    [1, 5],
    [2, 5],
    [5, 3],
  ]) {
    assert.equal(decodeKeytab(Buffer.concat([Buffer.from(start), file.subarray(2)])), undefined);
  }
  const first = 2 + 4 + keytabEntry(ALICE).length;
  for (let length = 0; length < file.length; length += 1) {
    const expected = length === 2 || length === first;
    assert.equal(decodeKeytab(file.subarray(0, length)) !== undefined, expected, `${length} bytes`);
  }
});

test('lengths inside an entry that point past its end are refused', () => {
  const entry = keytabEntry(ALICE);
  for (let at = 0; at < 12; at += 1) {
    const broken = Buffer.from(entry);
    broken[at] = 0xff;
    const entries = decodeKeytab(join([16, 0x0502], [32, broken.length], broken));
    // Bytes of a name may be anything; bytes of a length may not.
    const isLength = at < 4 || at === 12;
    assert.equal(entries === undefined, isLength, `byte ${at}`);
  }
  const short = keytabEntry({ ...ALICE, key: 'k'.repeat(32) }).subarray(0, -1);
  assert.equal(decodeKeytab(join([16, 0x0502], [32, short.length], short)), undefined);
  const keyless = keytabEntry({ ...ALICE, key: '' });
  assert.equal(decodeKeytab(join([16, 0x0502], [32, keyless.length], keyless)), undefined);
});

test('a name part with a separator inside is not taken for two parts', () => {
  const entry = join(
    [16, 1],
    [16, 1],
    'R',
    [16, 3],
    'a/b',
    [32, 1],
    [32, 0],
    [8, 1],
    [16, 18],
    [16, 1],
    'k',
  );
  const [read] = decodeKeytab(join([16, 0x0502], [32, entry.length], entry)) ?? [];
  assert.equal(read?.principal, 'a\\/b@R');
});
