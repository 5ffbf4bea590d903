/** The provider around its processes: what goes into its private folder, and what each helper sees. */
import assert from 'node:assert/strict';
import {
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import type { HelperPlace } from '../../../../src/auth/kerberos/helper-link.ts';
import { createKerberosProvider } from '../../../../src/auth/kerberos/kerberos-provider.ts';
import type { KerberosProvider } from '../../../../src/auth/kerberos/provider.ts';
import {
  createKerberosIdentity,
  type KerberosIdentity,
} from '../../../../src/identity/identity.ts';
import { decodeKeytab } from '../../../../src/identity/keytab.ts';
import { noLog } from '../../../../src/log/log.ts';
import { FakeClock } from '../../../support/fake-clock.ts';
import { testCache, testKeytab } from '../../../support/kerberos-files.ts';
import { temporaryFolder } from '../../../support/temporary-folder.ts';
import { FakeHelpers } from './fake-helper.ts';
import { credentialVersion } from '../../../support/versioned-secrets.ts';

const never = new AbortController().signal;
const TICKET = { server: 'krbtgt/LAB.TEST@LAB.TEST', end: 2_000_000_000 };

class World implements AsyncDisposable {
  readonly clock = new FakeClock();
  readonly files = mkdtempSync(join(temporaryFolder(), 'provider-'));
  readonly places: HelperPlace[] = [];
  readonly configured = new FakeHelpers();
  readonly ambient = new FakeHelpers();
  readonly kinits: Readonly<Record<string, string>>[] = [];
  readonly provider: KerberosProvider;

  constructor(identities: readonly KerberosIdentity[] = [], isPackagePresent = true) {
    this.provider = createKerberosProvider(
      {
        identities,
        passwords: () => undefined,
        krb5Config: '/etc/own.conf',
        defaultCache: 'KCM:',
        deadlines: this.clock.deadlines,
        clock: this.clock,
        log: noLog,
        deadlineMs: 5000,
      },
      {
        isPackagePresent: () => isPackagePresent,
        helper: (place) => {
          this.places.push(place);
          return (place.folder === undefined ? this.ambient : this.configured).start;
        },
        kinit: (environment) => {
          this.kinits.push(environment);
          return () => Promise.reject(new Error('no kinit here'));
        },
      },
    );
  }

  get folder(): string {
    return this.places[0]?.folder ?? '';
  }

  get collection(): string {
    return join(this.folder, 'collection');
  }

  /** Names and versions of the merged client keytab. */
  get merged(): string[] {
    const entries = decodeKeytab(readFileSync(join(this.folder, 'client.keytab'))) ?? [];
    return entries.map(({ principal, version }) => `${principal} ${version}`);
  }

  write(name: string, bytes: Uint8Array): string {
    const file = join(this.files, name);
    writeFileSync(file, bytes);
    return file;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.provider.close();
  }
}

function identity(
  name: string | undefined,
  source: KerberosIdentity['source'],
  credential = '',
): KerberosIdentity {
  const principal = `${name ?? 'me'} ${source}`;
  return createKerberosIdentity({
    principal,
    name,
    source,
    credential,
    version: credentialVersion(),
  });
}

describe('keytabs', () => {
  test('are merged: the own entries of each principal and no others', async () => {
    await using world = new World();
    const shared = world.write(
      'shared',
      testKeytab(
        { principal: 'a@R', version: 2 },
        { principal: 'other@R' },
        { principal: 'a@R', version: 3 },
      ),
    );
    const own = world.write('own', testKeytab({ principal: 'b@R' }));
    await world.provider.refresh([
      identity('a@R', 'keytab', shared),
      identity('b@R', 'keytab', own),
    ]);
    assert.deepEqual(world.merged, ['a@R 2', 'a@R 3', 'b@R 1']);
    assert.equal(statSync(join(world.folder, 'client.keytab')).mode & 0o777, 0o600);
  });

  test('R15 a changed one removes the tickets that its principal had, and no others', async () => {
    await using world = new World();
    const file = world.write('k', testKeytab({ principal: 'a@R', version: 1 }));
    const who = [identity('a@R', 'keytab', file)];
    await world.provider.refresh(who);
    for (const name of ['a@R', 'b@R']) {
      writeFileSync(join(world.collection, `tkt${name}`), testCache(name, TICKET));
    }
    await world.provider.refresh(who);
    assert.equal(readdirSync(world.collection).length, 2);
    world.write('k', testKeytab({ principal: 'a@R', version: 2 }));
    await world.provider.refresh(who);
    assert.deepEqual(world.merged, ['a@R 2']);
    assert.deepEqual(readdirSync(world.collection), ['tktb@R']);
  });

  test('that are missing or malformed leave the keys in force', async () => {
    await using world = new World();
    const file = world.write('k', testKeytab({ principal: 'a@R' }));
    const who = [identity('a@R', 'keytab', file)];
    await world.provider.refresh(who);
    world.write('k', Buffer.from('half a key'));
    await world.provider.refresh(who);
    rmSync(file);
    await world.provider.refresh(who);
    assert.deepEqual(world.merged, ['a@R 1']);
  });

  test('of a principal that was taken away are out of force', async () => {
    await using world = new World();
    const file = world.write('k', testKeytab({ principal: 'a@R' }));
    await world.provider.refresh([identity('a@R', 'keytab', file)]);
    await world.provider.refresh([]);
    assert.deepEqual(world.merged, []);
  });
});

describe('credential caches', () => {
  const copies = (world: World): string[] =>
    readdirSync(world.collection).map((name) =>
      readFileSync(join(world.collection, name)).toString('base64'),
    );

  test('are copied when their content changes, and looked at by each call once a second', async () => {
    await using world = new World();
    const first = testCache('a@R', TICKET);
    const who = identity('a@R', 'ccache', world.write('cc', first));
    const ask = async (): Promise<void> => {
      const caller = new AbortController();
      const call = world.provider.initiate(who, 'HTTP/web', caller.signal);
      caller.abort(new Error('enough'));
      await assert.rejects(call, { message: 'enough' });
    };
    await ask();
    assert.deepEqual(copies(world), [first.toString('base64')]);
    const second = testCache('a@R', TICKET, { ...TICKET, end: 2_100_000_000 });
    world.write('cc', second);
    await ask();
    assert.deepEqual(copies(world), [first.toString('base64')]);
    world.clock.advance(1000);
    await ask();
    assert.deepEqual(copies(world), [second.toString('base64')]);
  });

  test('that are half written, of somebody else or away for a moment leave the copy', async () => {
    await using world = new World();
    const good = testCache('a@R', TICKET);
    const file = world.write('cc', good);
    const who = [identity('a@R', 'ccache', file)];
    await world.provider.refresh(who);
    for (const bytes of [
      good.subarray(0, 40),
      Buffer.alloc(0),
      testCache('a@R'),
      testCache('b@R', TICKET),
    ]) {
      world.write('cc', bytes);
      await world.provider.refresh();
      assert.deepEqual(copies(world), [good.toString('base64')]);
    }
    rmSync(file);
    await world.provider.refresh();
    assert.equal(copies(world).length, 1);
    await world.provider.refresh();
    assert.deepEqual(copies(world), []);
    world.write('cc', good);
    await world.provider.refresh();
    assert.equal(copies(world).length, 1);
  });

  test('of a principal that was taken away are removed, and copied again when it is back', async () => {
    await using world = new World();
    const who = [identity('a@R', 'ccache', world.write('cc', testCache('a@R', TICKET)))];
    await world.provider.refresh(who);
    await world.provider.refresh([]);
    assert.deepEqual(copies(world), []);
    await world.provider.refresh(who);
    assert.equal(copies(world).length, 1);
  });

  test('R15 do not serve an entry that gets its tickets from elsewhere now', async () => {
    await using world = new World();
    const file = world.write('cc', testCache('a@R', TICKET));
    const principal = 'me';
    await world.provider.refresh([{ ...identity('a@R', 'ccache', file), principal }]);
    assert.equal(copies(world).length, 1);
    await world.provider.refresh([{ ...identity('a@R', 'password'), principal }]);
    assert.deepEqual(copies(world), []);
  });
});

describe('processes', () => {
  test('see the place of their tickets and nothing else', async () => {
    await using world = new World();
    const [configured, ambient] = world.places;
    // The daemon's own lines about names come before the machine's.
    const names = join(import.meta.dirname, '../../../../src/auth/kerberos/names.conf');
    const base = {
      LC_ALL: 'C',
      KRB5_CONFIG: `${names}:/etc/own.conf`,
      GSS_MECH_CONFIG: '/dev/null',
    };
    assert.deepEqual(configured?.environment, {
      ...base,
      KRB5CCNAME: `DIR:${world.collection}`,
      KRB5_CLIENT_KTNAME: `FILE:${world.folder}/client.keytab`,
    });
    assert.deepEqual(ambient, { environment: { ...base, KRB5CCNAME: 'KCM:' }, folder: undefined });
    assert.deepEqual(
      Object.keys(world.kinits[0] ?? {}).sort(),
      [...Object.keys(base), 'PATH'].sort(),
    );
  });

  test('for the ambient identity start at its first use, which names no principal', async () => {
    const ambient = identity(undefined, 'ambient');
    await using world = new World([ambient]);
    assert.deepEqual([world.configured.started.length, world.ambient.started.length], [0, 0]);
    const call = world.provider.initiate(ambient, 'HTTP/web', never);
    world.ambient.get(0).say({ kind: 'ready' });
    assert.deepEqual(world.ambient.get(0).calls, ['- HTTP/web']);
    world.ambient.get(0).token(0);
    (await call).dispose();
    assert.equal(world.configured.started.length, 0);
  });

  test('for configured principals start at once', async () => {
    await using world = new World([identity('a@R', 'keytab', '/nonexistent')]);
    assert.equal(world.configured.started.length, 1);
  });

  test('are not started without the package: it is not available, and calls say so', async () => {
    const who = [identity('a@R', 'keytab', '/nonexistent'), identity(undefined, 'ambient')];
    await using world = new World(who, false);
    assert.equal(world.provider.available, false);
    for (const one of who) {
      await assert.rejects(world.provider.initiate(one, 'HTTP/web', never), {
        code: 'mechanism-unavailable',
      });
    }
    assert.equal(world.configured.started.length + world.ambient.started.length, 0);
  });

  test('that find the package broken make it unavailable', async () => {
    await using world = new World([identity('a@R', 'keytab', '/nonexistent')]);
    assert.equal(world.provider.available, true);
    world.configured.get(0).say({ kind: 'missing', text: 'libgssapi_krb5.so.2: not found' });
    assert.equal(world.provider.available, false);
  });
});

test('close kills the helpers, removes the folder and refuses what comes later', async () => {
  const world = new World([identity('a@R', 'keytab', '/nonexistent')]);
  assert.equal(statSync(world.folder).mode & 0o777, 0o700);
  await world.provider.close();
  await world.provider.close();
  await world.provider.refresh();
  assert.ok(world.configured.get(0).isKilled);
  assert.ok(!existsSync(world.folder));
  for (const source of ['keytab', 'ccache', 'password', 'ambient'] as const) {
    const who = identity(source === 'ambient' ? undefined : 'a@R', source, '/nonexistent');
    await assert.rejects(world.provider.initiate(who, 'HTTP/web', never), {
      code: 'shutting-down',
    });
  }
});
