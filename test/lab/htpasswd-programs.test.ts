/** User files and hashes as the programs that people use make them: `htpasswd` and `openssl passwd`. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { parsePasswordHash } from '../../src/identity/hash-form.ts';
import { parseHtpasswd } from '../../src/identity/htpasswd.ts';
import { isPasswordOf } from '../../src/inbound/htpasswd/password-hash.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { requireCommand } from './requires.ts';

/** Around the lengths at which the functions change what they do: digests, blocks, bits. */
const LENGTHS = [1, 2, 15, 16, 17, 31, 32, 33, 63, 64, 65, 71, 72, 127, 128, 129, 254];

const passwordOf = (length: number): string =>
  'Pa$s:wörd 😀 '.repeat(length).slice(0, length).toWellFormed().replaceAll('\ufffd', 'x');

const FITS = LENGTHS.map(passwordOf).filter((password) => Buffer.byteLength(password) < 255);

function assertMade(text: string, password: string): void {
  const hash = parsePasswordHash(text);
  assert.ok(typeof hash !== 'string', String(hash));
  assert.equal(isPasswordOf(password, hash), true, `${hash.kind} of ${password.length} letters`);
  assert.equal(isPasswordOf(`+${password}`, hash), false);
}

describe('hashes of other programs', () => {
  for (const kind of ['-5', '-6', '-apr1']) {
    test(`openssl passwd ${kind} makes what is taken here`, (t) => {
      if (!requireCommand(t, 'openssl')) return;
      for (const password of FITS) {
        const made = execFileSync('openssl', ['passwd', kind, '-stdin'], { input: password });
        assertMade(made.toString().trim(), password);
      }
    });
  }

  test('htpasswd makes files that are taken here, with bcrypt and with apr1', (t) => {
    if (!requireCommand(t, 'htpasswd')) return;
    const file = join(temporaryFolder(), 'users');
    const passwords = new Map<string, string>();
    const kinds = [['-B'], ['-B', '-C', '6'], ['-m']];
    for (const kind of kinds) {
      // From 73 bytes on, htpasswd makes no bcrypt hash.
      for (const password of FITS.filter((each) => Buffer.byteLength(each) <= 72)) {
        const user = `user ${passwords.size}`;
        const first = passwords.size === 0 ? ['-c'] : [];
        execFileSync('htpasswd', ['-i', ...first, ...kind, file, user], {
          input: `${password}\n`,
          stdio: ['pipe', 'ignore', 'ignore'],
        });
        passwords.set(user, password);
      }
    }
    const reading = parseHtpasswd(readFileSync(file, 'utf8'));
    assert.ok('users' in reading, JSON.stringify(reading));
    assert.deepEqual([...reading.users.keys()], [...passwords.keys()]);
    for (const [user, hash] of reading.users) {
      assert.equal(isPasswordOf(passwords.get(user) ?? '', hash), true, user);
    }
  });
});
