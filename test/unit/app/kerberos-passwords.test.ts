/** Whose password Kerberos gets for a principal whose entry a reload gave to somebody else. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { passwordOf } from '../../../src/app/kerberos.ts';
import type { Config } from '../../../src/config/config.ts';
import { ConfigSource } from '../../../src/config/config-source.ts';
import { systemIo } from '../../../src/config/secrets.ts';
import { createKerberosIdentity, type KerberosIdentity } from '../../../src/identity/identity.ts';
import { credentialVersion } from '../../support/versioned-secrets.ts';

const FILE = '/test/sidekerb.yaml';

/** `crm` is the person of this name. */
async function configOf(name: string): Promise<Config> {
  const text = `version: 1
principals: { crm: { kerberos: ${name}@LAB.TEST, password: { env: SECRET } } }
upstreams: { web: { url: 'http://web.test', auth: { principal: crm, schemes: negotiate } } }
listeners: [ { name: web, listen: 127.0.0.1:0, routes: [ { path: /, upstream: web } ] } ]
`;
  const { config, faults } = await new ConfigSource(FILE, {
    ...systemIo,
    env: () => `${name}-secret`,
    readFile: (path) => (path === FILE ? Buffer.from(text) : systemIo.readFile(path)),
  }).load();
  if (config === undefined) throw new Error(JSON.stringify(faults));
  return config;
}

const identityOf = (name: string): KerberosIdentity =>
  createKerberosIdentity({
    principal: 'crm',
    name: `${name}@LAB.TEST`,
    source: 'password',
    credential: '',
    version: credentialVersion(),
  });

test('a login that began as the one before is not made with the password of the one after', async () => {
  const config = await configOf('bob');
  assert.equal(passwordOf(config, identityOf('bob'))?.reveal(), 'bob-secret');
  assert.equal(passwordOf(config, identityOf('alice')), undefined);
});
