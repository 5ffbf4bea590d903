/** Principals of Kerberos: which parts they have, what is read of their files, what is only a warning. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { Config, PrincipalConfig } from '../../../src/config/config.ts';
import { loadText } from '../../../src/config/load.ts';
import { testCache, testKeytab } from '../../support/kerberos-files.ts';
import type { Machine } from './loading.ts';
import { bareMachine, loaded } from './loading.ts';

const ME = 'me@CORP.EXAMPLE';
const TICKET = { server: 'krbtgt/CORP.EXAMPLE@CORP.EXAMPLE', end: 2_000_000_000 };

const file = (entry: string, kerberos = '{}'): string => `version: 1
kerberos: ${kerberos}
principals: { me: { ${entry} } }
upstreams: { web: { url: 'http://web' } }
listeners: { name: api, listen: '127.0.0.1:1', routes: { upstream: web } }
`;

const load = (entry: string, machine: Machine = {}): Config =>
  loaded(file(entry), bareMachine(machine));

const principal = (entry: string, machine: Machine = {}): PrincipalConfig | undefined =>
  load(entry, machine).principals['me'];

/** The one fault, as path, message and kind. */
function fault(text: string, files: Machine['files'] = {}): string {
  const { faults } = loadText('/etc/sk/c.yaml', text, bareMachine({ files }));
  assert.equal(faults.length, 1, JSON.stringify(faults));
  return `${faults[0]?.path}: ${faults[0]?.message} (${faults[0]?.kind})`;
}

describe('keytabs', () => {
  const entry = `kerberos: ${ME}, keytab: k`;
  const at = '/etc/sidekerb/k';
  const keytab = (key: string, version = 1): Machine => ({
    files: {
      [at]: testKeytab({ principal: 'other@CORP.EXAMPLE' }, { principal: ME, key, version }),
    },
  });

  test('a principal with a keytab uses Kerberos alone', () => {
    const me = principal(entry, keytab('a'.repeat(32)));
    assert.ok(me?.kind === 'kerberos' && me.kerberos.source === 'keytab');
    assert.equal(me.kerberos.principal, ME);
    assert.equal(me.kerberos.path, at);
  });

  test('R15 the fingerprint changes with the key and its version, and with nothing of others', () => {
    const print = (machine: Machine): string => {
      const me = principal(entry, machine);
      assert.ok(me?.kind === 'kerberos' && me.kerberos.source === 'keytab');
      return me.kerberos.fingerprint;
    };
    const first = print(keytab('a'.repeat(32)));
    assert.equal(
      print({ files: { [at]: testKeytab({ principal: ME, key: 'a'.repeat(32) }) } }),
      first,
    );
    assert.notEqual(print(keytab('b'.repeat(32))), first);
    assert.notEqual(print(keytab('a'.repeat(32), 2)), first);
    assert.doesNotMatch(first, /aaaa/);
  });

  test('a keytab that is absent, malformed or of somebody else is a credential fault', () => {
    const bad = (content?: Uint8Array | string): string =>
      fault(file(entry), content === undefined ? {} : { '/etc/sk/k': content });
    assert.equal(bad(), 'principals.me.keytab: file k does not exist (credential)');
    const malformed = 'principals.me.keytab: file k is no keytab of format 0x502 (credential)';
    assert.equal(bad('secret-canary'), malformed);
    assert.equal(bad(''), malformed);
    assert.equal(bad(testKeytab({ principal: ME }).subarray(0, -1)), malformed);
    assert.equal(
      bad(testKeytab({ principal: 'you@CORP.EXAMPLE' })),
      `principals.me.keytab: file k has no key of ${ME} (credential)`,
    );
  });
});

describe('credential caches', () => {
  test('a path and FILE: lead to the same cache, relative to the file', () => {
    for (const written of ['cc', 'FILE:cc', 'FILE:/etc/sidekerb/cc']) {
      const files = { '/etc/sidekerb/cc': testCache(ME, TICKET) };
      const config = load(`kerberos: ${ME}, ccache: '${written}'`, { files });
      const me = config.principals['me'];
      const kerberos = { source: 'ccache', principal: ME, path: '/etc/sidekerb/cc' };
      assert.deepEqual(me?.kerberos, kerberos);
      assert.deepEqual(config.warnings, []);
    }
  });

  test('one that is missing, empty, of another form or of somebody else is a warning', () => {
    const warnings = (content?: string | Uint8Array): readonly string[] =>
      load(
        `kerberos: ${ME}, ccache: /cc`,
        content === undefined ? {} : { files: { '/cc': content } },
      ).warnings;
    const at = 'principals.me.ccache: file /cc';
    assert.deepEqual(warnings(), [`${at} does not exist`]);
    assert.deepEqual(warnings(''), [`${at} is empty: there are no tickets yet`]);
    assert.deepEqual(warnings('abc'), [`${at} is no credential cache of type FILE`]);
    assert.deepEqual(warnings(testCache(ME)), [`${at} has no tickets yet`]);
    assert.deepEqual(warnings(testCache('you@X')), [`${at} has tickets of you@X`]);
  });

  test('other types of caches cannot be copied and are refused', () => {
    for (const name of ['DIR:/run/cc', 'KEYRING:persistent:0', 'KCM:', 'MEMORY:x']) {
      assert.equal(
        fault(file(`kerberos: ${ME}, ccache: '${name}'`)),
        'principals.me.ccache: wanted: a path or FILE:PATH (config)',
      );
    }
  });
});

describe('parts of a principal', () => {
  const env = { PW: 'hunter2' };
  const password = 'password: { env: PW }';

  test('a password serves both mechanisms, or Kerberos alone', () => {
    const both = principal(`username: u, kerberos: ${ME}, ${password}`, { env });
    assert.ok(both?.kind === 'password' && both.kerberos?.source === 'password');
    assert.equal(both.kerberos.password.reveal(), 'hunter2');
    const alone = principal(`kerberos: ${ME}, ${password}`, { env });
    assert.ok(alone?.kind === 'kerberos' && alone.kerberos.source === 'password');
    const ntlm = principal(`username: u, ${password}`, { env });
    assert.ok(ntlm?.kind === 'password' && ntlm.kerberos === undefined);
  });

  test('beside a cache the password is for NTLM', () => {
    const me = principal(`username: u, kerberos: ${ME}, ccache: /cc, ${password}`, { env });
    assert.ok(me?.kind === 'password' && me.kerberos?.source === 'ccache');
  });

  test('ambient has no name', () => {
    assert.deepEqual(principal('ambient: true')?.kerberos, { source: 'ambient' });
  });
});

describe('the section kerberos', () => {
  const entry = 'ambient: true';

  test('the environment stands in for what the file does not say', () => {
    const env = { KRB5_CONFIG: '/env/krb5.conf', KRB5CCNAME: 'KCM:' };
    const { kerberos } = load(entry, { env });
    assert.deepEqual(kerberos, {
      config: '/env/krb5.conf',
      defaultCache: 'KCM:',
      provider: 'npm',
      realms: { default: undefined, known: [] },
    });
    const io = bareMachine({ env, files: { '/etc/sidekerb/own.conf': '' } });
    const own = loaded(file(entry, '{ config: own.conf }'), io).kerberos;
    assert.equal(own.config, '/etc/sidekerb/own.conf');
    const bare = load(entry, { env: { KRB5_CONFIG: '' } }).kerberos;
    assert.deepEqual([bare.config, bare.defaultCache], [undefined, undefined]);
  });

  test('a configuration that does not exist is a fault, and gssapi is not built', () => {
    assert.equal(
      fault(file(entry, '{ config: /krb5.conf }')),
      'kerberos.config: file /krb5.conf does not exist (config)',
    );
    assert.equal(
      fault(file(entry, '{ provider: gssapi }')),
      'kerberos.provider: not built yet (config)',
    );
  });
});
