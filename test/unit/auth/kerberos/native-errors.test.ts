/** A row for each text of MIT Kerberos 1.20 that gets a code; seen at the package and at kinit. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { nativeError, realmInText } from '../../../../src/auth/kerberos/native-errors.ts';
import type { ErrorCode } from '../../../../src/errors.ts';

const GSS = 'Unspecified GSS failure.  Minor code may provide more information: ';
const NO_CREDENTIALS =
  'No credentials were supplied, or the credentials were unavailable or inaccessible: ';
const INITIAL = ' while getting initial credentials';

const ROWS: readonly (readonly [text: string, code: ErrorCode])[] = [
  [`${GSS}Server HTTP/nope.lab.test@LAB.TEST not found in Kerberos database`, 'spn-unknown'],
  [`${GSS}Server krbtgt/AWAY.TEST@LAB.TEST not found in Kerberos database`, 'spn-unknown'],
  [`kinit: Client 'zed@LAB.TEST' not found in Kerberos database${INITIAL}`, 'credential-rejected'],
  [`kinit: Password incorrect${INITIAL}`, 'credential-rejected'],
  [`kinit: Preauthentication failed${INITIAL}`, 'credential-rejected'],
  [`${GSS}Preauthentication failed`, 'credential-rejected'],
  [`${GSS}Decrypt integrity check failed`, 'credential-rejected'],
  [`kinit: Client's credentials have been revoked${INITIAL}`, 'credential-rejected'],
  [`kinit: Clients credentials have been revoked${INITIAL}`, 'credential-rejected'],
  [`${GSS}Key table entry not found`, 'credential-rejected'],
  [`kinit: Keytab contains no suitable keys for alice@LAB.TEST${INITIAL}`, 'credential-rejected'],
  [`${GSS}Clock skew too great`, 'clock-skew'],
  [`kinit: Clock skew too great${INITIAL}`, 'clock-skew'],
  [`${GSS}Ticket expired`, 'credential-expired'],
  ['The referenced credential has expired', 'credential-expired'],
  [`kinit: Password has expired${INITIAL}`, 'credential-expired'],
  [`${GSS}Cannot contact any KDC for realm 'LAB.TEST'`, 'kdc-unreachable'],
  [`kinit: Cannot contact any KDC for realm 'LAB.TEST'${INITIAL}`, 'kdc-unreachable'],
  [`kinit: Cannot find KDC for realm "X.TEST"${INITIAL}`, 'kdc-unreachable'],
  [`kinit: Cannot resolve network address for KDC in realm "X.TEST"${INITIAL}`, 'kdc-unreachable'],
  [
    `${NO_CREDENTIALS}Can't find client principal zed@LAB.TEST in cache collection`,
    'credential-missing',
  ],
  [`${NO_CREDENTIALS}SPNEGO cannot find mechanisms to negotiate`, 'credential-missing'],
  [
    `${NO_CREDENTIALS}No Kerberos credentials available (default cache: FILE:/x)`,
    'credential-missing',
  ],
  [`${GSS}No credentials cache found`, 'credential-missing'],
  [`${GSS}Credentials cache file '/tmp/x' not found`, 'credential-missing'],
  [`${NO_CREDENTIALS}Matching credential not found`, 'credential-missing'],
  ['A required argument is missing', 'mechanism-failed'],
  ['', 'mechanism-failed'],
];

for (const [text, code] of ROWS) {
  test(`${code}: ${text === '' ? '(no text)' : text}`, () => {
    const error = nativeError(text);
    assert.equal(error.code, code);
    assert.ok(error.cause instanceof Error);
    assert.equal(error.cause.message, text);
    // Names of principals stay in the cause, which is for those who ask for it.
    assert.doesNotMatch(error.message, /@|LAB|zed|alice/);
  });
}

test('a text names the realm whose KDC it complains about, or none', () => {
  assert.equal(realmInText("Cannot contact any KDC for realm 'LAB.TEST'"), 'LAB.TEST');
  assert.equal(realmInText('kinit: Cannot find KDC for realm "X.TEST" while'), 'X.TEST');
  assert.equal(realmInText('Ticket expired'), undefined);
});
