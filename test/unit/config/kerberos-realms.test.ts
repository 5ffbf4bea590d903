/** Which realms a Kerberos configuration names. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { readRealms } from '../../../src/config/kerberos-realms.ts';

function realms(
  files: Readonly<Record<string, string>>,
  folders: Readonly<Record<string, readonly string[]>> = {},
  path = '/etc/krb5.conf',
): { default: string | undefined; known: readonly string[] } {
  return readRealms(path, { text: (name) => files[name], names: (name) => folders[name] });
}

describe('realms', () => {
  test('are the default, those with a section of their own, and those of domains', () => {
    const text = `# comment = no
[libdefaults]
  default_realm = LAB.TEST
  dns_lookup_kdc = false
[realms]
  LAB.TEST = {
    kdc = kdc.lab.test
    v4_instance_convert = {
      inner = {
      }
    }
    EVIL.TEST = inside
  }
  Other.Test = {
    kdc = x
  }
  }
  THIRD.TEST = {
  }
[domain_realm]
  .lab.test = LAB.TEST
  .corp = CORP.TEST
[capaths]
  NOT.ONE = {
  }
`;
    const found = realms({ '/etc/krb5.conf': text });
    assert.equal(found.default, 'LAB.TEST');
    assert.deepEqual(
      found.known.toSorted(),
      ['CORP.TEST', 'LAB.TEST', 'Other.Test', 'THIRD.TEST'].toSorted(),
    );
  });

  test('of included files and folders count, in the names that the library takes', () => {
    const found = realms(
      {
        '/etc/krb5.conf': 'include /one\nincludedir /dir\n[realms]\n A = {\n }\n',
        '/one': '[libdefaults]\n default_realm = ONE\n',
        '/dir/sssd.conf': '[realms]\n B = {\n }\n',
        '/dir/plain_name': '[realms]\n C = {\n }\n',
        '/dir/.hidden.conf': '[realms]\n D = {\n }\n',
        '/dir/backup.conf~': '[realms]\n E = {\n }\n',
      },
      { '/dir': ['sssd.conf', 'plain_name', '.hidden.conf', 'backup.conf~'] },
    );
    assert.equal(found.default, 'ONE');
    assert.deepEqual(found.known.toSorted(), ['A', 'B', 'C', 'ONE']);
  });

  test('of several files count together, the first default wins', () => {
    const found = realms(
      {
        '/a': '[libdefaults]\ndefault_realm=A\n',
        '/b': '[libdefaults]\r\n default_realm = B\r\n',
      },
      {},
      '/a:/missing:/b',
    );
    assert.deepEqual(found, { default: 'A', known: ['A', 'B'] });
  });

  test('are none where there is no file, and files that include themselves end', () => {
    assert.deepEqual(realms({}), { default: undefined, known: [] });
    assert.deepEqual(realms({ '/etc/krb5.conf': 'include /etc/krb5.conf\n' }).known, []);
  });
});
