/** The files under config/: they load, they are complete, and the schema is the one in force. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import type { Fault } from '../src/config/faults.ts';
import { formatFaults } from '../src/config/faults.ts';
import { allKeys } from '../src/config/known-keys.ts';
import { loadText } from '../src/config/load.ts';
import { schemaText } from '../src/config/schema-json.ts';
import type { ConfigIo } from '../src/config/secrets.ts';
import { parseYaml } from '../src/config/yaml-document.ts';
import { testCertificate } from './support/certificates.ts';
import { testKeytab } from './support/kerberos-files.ts';
import { syncStores } from './support/sync-stores.ts';
import { testPkcs12 } from './unit/config/pkcs12.ts';
import { refusals } from './unit/config/schema-validator.ts';

const FOLDER = join(import.meta.dirname, '../config');
const COMMENTED = /^(\s*)#- ([A-Za-z0-9]+)(:.*)$/;

const read = (name: string): string => readFileSync(join(FOLDER, name), 'utf8');
const lines = (): string[] => read('sidekerb.example.yaml').split('\n');

function machine(): ConfigIo {
  const { cert, key, ca } = testCertificate();
  const mesh = testCertificate({ names: ['mesh.corp.example'] });
  const files: Readonly<Record<string, string | Buffer>> = {
    '/run/secrets/crm': 'correct horse\n',
    '/etc/krb5.conf': '[libdefaults]\n',
    '/etc/sidekerb/reports.keytab': testKeytab({ principal: 'svc-reports@CORP.EXAMPLE' }),
    '/etc/sidekerb/http.keytab': testKeytab({
      principal: 'HTTP/gateway.corp.example@CORP.EXAMPLE',
    }),
    '/etc/sidekerb/htpasswd': 'alice:$apr1$salt$Xxd1irWT9ycqoYxGFn4cb.\n',
    '/etc/ssl/corp.pem': ca,
    '/etc/ssl/more.pem': ca,
    '/etc/tls/client.pem': cert,
    '/etc/tls/client.key': key,
    '/etc/sidekerb/clients.pem': ca,
    '/etc/tls/mesh.pem': mesh.cert,
    '/etc/tls/mesh.key': mesh.key,
    '/etc/tls/gw.p12': testPkcs12('opens it'),
    '/etc/tls/client.p12': testPkcs12('opens it'),
  };
  return {
    readFile: (path) => {
      const content = files[path];
      if (content === undefined) throw Object.assign(new Error(path), { code: 'ENOENT' });
      return Buffer.from(content);
    },
    env: (name) =>
      ({ SVC_NT_HASH: 'a4f49c406510bdcab6824ee7c30fd852', P12_PASS: 'opens it' })[name],
  };
}

const faultsOf = (text: string): readonly Fault[] =>
  loadText('example.yaml', text, machine(), { stores: syncStores }).faults;

/** The example with one commented key in force; a line that gives the same key above it goes. */
function uncomment(index: number): string {
  const all = lines();
  const [, indent = '', key = '', rest = ''] = COMMENTED.exec(all[index] ?? '') ?? [];
  all[index] = `${indent}${key}${rest}`;
  const same = all.findIndex(
    (line, at) =>
      at !== index && isSibling(all, { at, index, start: `${indent}${key}:` }) && line !== '',
  );
  if (same >= 0) all[same] = '';
  return all.join('\n');
}

/** True where the line gives the same key of the same map. */
function isSibling(
  all: readonly string[],
  { at, index, start }: { at: number; index: number; start: string },
): boolean {
  if (!all[at]?.startsWith(start)) return false;
  const indent = /^ */.exec(start)?.[0].length ?? 0;
  const between = all.slice(Math.min(at, index) + 1, Math.max(at, index));
  return between.every(
    (line) => line.trim() === '' || (/^ */.exec(line)?.[0].length ?? 0) >= indent,
  );
}

const commented = lines().flatMap((line, index) => (COMMENTED.test(line) ? [index] : []));

describe('the example files', () => {
  for (const name of ['sidekerb.example.yaml', 'sidekerb.minimal.yaml']) {
    test(`${name} loads without a fault`, () => {
      assert.equal(formatFaults(faultsOf(read(name))), '0 faults\n');
    });

    test(`${name} is accepted by the JSON Schema`, () => {
      assert.deepEqual(refusals(JSON.parse(schemaText()), parseYaml(read(name)).data), []);
    });
  }

  for (const index of commented) {
    const line = lines()[index]?.trim().slice(3) ?? '';
    test(`the key of line ${index + 1} is not built yet, and nothing else is wrong: ${line}`, () => {
      const text = uncomment(index);
      const faults = faultsOf(text);
      assert.equal(faults.length, 1, formatFaults(faults));
      assert.equal(faults[0]?.message, 'not built yet');
      assert.equal(faults[0]?.line, index + 1);
      assert.deepEqual(refusals(JSON.parse(schemaText()), parseYaml(text).data), []);
    });
  }

  test('the example has every key of the contract', () => {
    const written = new Set<string>();
    collectKeys(parseYaml(lines().join('\n')).data, '', written);
    for (const index of commented) collectKeys(parseYaml(uncomment(index)).data, '', written);
    // References are written both ways, and the admin listener takes what listeners take.
    const wanted = allKeys().filter(
      (key) => !/\.(?:file|env)$|^admin\.(?:clients|tls)\./.test(key),
    );
    assert.ok(wanted.length > 100);
    assert.deepEqual(
      wanted.filter((key) => !written.has(key)),
      [],
    );
  });
});

test('config/sidekerb.schema.json is what the definition gives', () => {
  assert.equal(read('sidekerb.schema.json'), schemaText(), 'run: node src/config/schema-json.ts');
});

function collectKeys(value: unknown, path: string, keys: Set<string>): void {
  if (Array.isArray(value)) for (const item of value) collectKeys(item, path, keys);
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return;
  for (const [key, item] of Object.entries(value)) {
    const isName = /^(?:principals|upstreams|listeners\.principal\.when\.claim)$/.test(path);
    const here = `${path === '' ? '' : `${path}.`}${isName ? '*' : key}`;
    keys.add(here);
    collectKeys(item, here, keys);
  }
}
