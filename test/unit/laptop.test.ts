/** The configuration of `run --parent`, as the loader sees it. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { UsageError } from '../../cmd/command.ts';
import { checkLaptop, DEFAULT_LISTEN, type Laptop, laptopSource } from '../../cmd/laptop.ts';
import type { Config } from '../../src/config/config.ts';
import { formatFaults } from '../../src/config/faults.ts';
import { parseIpAddress } from '../../src/http/forward-addresses.ts';
import { ForwardRules } from '../../src/http/forward-rules.ts';

const LAPTOP: Laptop = {
  parent: 'http://proxy.corp.example:8080',
  user: String.raw`CORP\me`,
  listen: DEFAULT_LISTEN,
  ca: undefined,
};
const PASSWORD = 'correct horse "{}:';

async function load(laptop: Partial<Laptop> = {}): Promise<Config> {
  const { config, faults } = await laptopSource({ ...LAPTOP, ...laptop }, PASSWORD).load();
  assert.equal(config === undefined ? formatFaults(faults) : '', '');
  assert.ok(config);
  return config;
}

describe('run --parent', () => {
  test('is a forward listener on loopback that goes through the parent as the user', async () => {
    const config = await load();
    const [listener] = config.listeners;
    assert.deepEqual(listener?.listen, [
      { kind: 'tcp', host: '127.0.0.1', port: 3128, loopback: true },
    ]);
    assert.equal(listener?.mode, 'forward');
    assert.deepEqual(listener.mode === 'forward' ? listener.via : [], ['parent']);
    const { parent } = config.upstreams;
    assert.deepEqual(
      [parent?.kind, parent?.target.authority],
      ['parent', 'proxy.corp.example:8080'],
    );
    assert.deepEqual(
      [parent?.auth?.principal, parent?.auth?.schemes],
      ['user', ['ntlm', 'negotiate']],
    );
    const { user } = config.principals;
    assert.equal(user?.kind === 'password' ? user.username : '', String.raw`CORP\me`);
    assert.equal(user?.kind === 'password' ? user.password.reveal() : '', PASSWORD);
    assert.equal(user?.kind === 'password' ? user.kerberos : '', undefined);
    assert.deepEqual([config.admin, config.watch, config.dangerous], [undefined, false, []]);
  });

  test('has the password in nothing but the principal', async () => {
    const config = await load();
    const text = JSON.stringify(config.effective);
    assert.ok(text.includes('SIDEKERB_TYPED_PASSWORD'));
    assert.ok(!text.includes('horse'));
  });

  test('takes user@REALM by Kerberos too, with the same password', async () => {
    const { principals, upstreams } = await load({ user: 'me@CORP.EXAMPLE' });
    const { user } = principals;
    assert.deepEqual(upstreams['parent']?.auth?.schemes, ['negotiate', 'ntlm']);
    const part = user?.kind === 'client' ? undefined : user?.kerberos;
    assert.equal(part?.source, 'password');
    assert.equal(part.principal, 'me@CORP.EXAMPLE');
    assert.equal(part.password.reveal(), PASSWORD);
    assert.equal(user?.kind, 'password');
  });

  test('takes an https parent, and a slash behind it', async () => {
    const { parent } = (await load({ parent: 'https://proxy.corp.example/' })).upstreams;
    assert.deepEqual([parent?.target.scheme, parent?.target.port], ['https', 443]);
    assert.deepEqual(parent?.tls?.ca, undefined);
  });

  test('may be loaded again', async () => {
    const source = laptopSource(LAPTOP, PASSWORD);
    assert.deepEqual((await source.load()).faults, []);
    assert.equal(source.hasChanged(), false);
    assert.deepEqual((await source.load()).faults, []);
  });

  test('reaches this machine and private literals directly, the rest by the parent, link-local never', async () => {
    const [listener] = (await load()).listeners;
    assert.ok(listener?.mode === 'forward');
    const rules = new ForwardRules({ ...listener, isOwn: () => false });
    const rows: readonly (readonly [string, number, 'direct' | 'parent' | 'refused'])[] = [
      ['localhost', 8080, 'direct'],
      ['127.0.0.1', 3000, 'direct'],
      ['::1', 3000, 'direct'],
      ['10.1.2.3', 8443, 'direct'],
      ['172.31.0.1', 80, 'direct'],
      ['172.32.0.1', 80, 'parent'],
      ['192.168.1.1', 80, 'direct'],
      ['fd00::1', 22, 'direct'],
      ['wiki.corp.example', 80, 'parent'],
      ['intranet', 80, 'parent'],
      ['www.example.com', 443, 'parent'],
      ['git.example.com', 9418, 'parent'],
      ['93.184.216.34', 443, 'parent'],
      ['169.254.169.254', 80, 'refused'],
      ['fe80::1', 80, 'refused'],
    ];
    for (const [host, port, expected] of rows) {
      const isDirect = rules.isDirect(host, port);
      const mayGo = isDirect ? rules.mayAsk(host, port) : rules.mayPass(host, port);
      assert.equal(mayGo ? (isDirect ? 'direct' : 'parent') : 'refused', expected, host);
    }
    const loopback = parseIpAddress('127.0.0.1');
    assert.ok(loopback && rules.mayDial('localhost', 8080, loopback));
  });

  test('refuses what can only be mistyped', async () => {
    const rows: readonly (readonly [Partial<Laptop>, RegExp])[] = [
      [{ parent: 'proxy:8080' }, /^--parent: wanted: http/],
      [{ parent: 'socks5://proxy:1080' }, /^--parent: wanted: http/],
      [{ parent: 'http://me:pw@proxy:8080' }, /^--parent: .*user name or password/],
      [{ parent: 'http://proxy:8080/x' }, /^--parent: a proxy has no path/],
      [{ user: '' }, /^--user: wanted/],
      [{ user: String.raw`A\b\c` }, /^--user: wanted/],
      [{ user: String.raw`A\b@C` }, /^--user: wanted/],
      [{ user: 'a@B@C' }, /^--user: wanted/],
      [{ user: 'a\nb' }, /^--user: wanted/],
      [{ listen: '3128' }, /^--listen: wanted: HOST:PORT/],
      [{ listen: '0.0.0.0:3128' }, /^--listen: wanted: an address of this machine/],
      [{ listen: '[::]:3128' }, /^--listen: wanted: an address of this machine/],
      [{ listen: 'proxy:3128' }, /^--listen: wanted: an address of this machine/],
    ];
    for (const [laptop, expected] of rows) {
      assert.throws(
        () => checkLaptop({ ...LAPTOP, ...laptop }),
        (error) => error instanceof UsageError && expected.test(error.message),
        JSON.stringify(laptop),
      );
    }
    for (const listen of ['127.0.0.2:0', '[::1]:3128', 'localhost:3128'])
      checkLaptop({ ...LAPTOP, listen });
  });
});
