/** The command line as a shell sees it: output, exit codes, signals. */
import assert from 'node:assert/strict';
import { startJwksServer } from '../support/jwks-server.ts';
import { parseHtpasswd } from '../../src/identity/htpasswd.ts';
import { isPasswordOf } from '../../src/inbound/htpasswd/password-hash.ts';
import { spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { live } from '../../cmd/lifecycle.ts';
import type { Lifecycle } from '../../cmd/lifecycle.ts';
import { noLog } from '../../src/log/log.ts';
import { parseYaml } from '../../src/config/yaml-document.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { event, Gate, until, within } from '../support/waiting.ts';

const PROGRAM = join(import.meta.dirname, '../../cmd/sidekerb.ts');
const DEADLINE_MS = 15_000;

/** A running command; ended with the test that started it. */
class Running {
  readonly child: ChildProcess;
  readonly ended: Promise<number>;
  out = '';
  err = '';

  constructor(args: readonly string[], env: Readonly<Record<string, string>> = {}) {
    this.child = spawn(process.execPath, [PROGRAM, ...args], { env });
    this.child.stdout?.on('data', (data: Buffer) => (this.out += data.toString()));
    this.child.stderr?.on('data', (data: Buffer) => (this.err += data.toString()));
    this.ended = event(this.child, 'close', DEADLINE_MS).then(() => this.child.exitCode ?? -1);
    // Awaited by whoever wants the code; a test that failed before must not fail twice.
    this.ended.catch(() => undefined);
  }

  says(text: string): Promise<void> {
    return until(() => this.out.includes(text), `"${text}" on stdout`, DEADLINE_MS);
  }

  [Symbol.dispose](): void {
    this.child.kill('SIGKILL');
  }
}

interface Ended {
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

async function sidekerb(
  args: readonly string[],
  more: { stdin?: string; env?: Record<string, string> } = {},
): Promise<Ended> {
  using running = new Running(args, more.env);
  running.child.stdin?.end(more.stdin ?? '');
  const code = await running.ended;
  return { code, out: running.out, err: running.err };
}

/** A folder with a configuration, and whatever else is named. */
function folderWith(files: Readonly<Record<string, string>>): string {
  const folder = mkdtempSync(join(temporaryFolder(), 'cmd-'));
  for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text);
  return folder;
}

const CONFIG = `version: 1
principals: { crm: { username: 'CORP\\crm', password: { file: secret } } }
upstreams: { crm: { url: 'http://127.0.0.1:9', auth: { principal: crm } } }
listeners: { name: api, listen: '127.0.0.1:0', routes: { upstream: crm } }
`;

describe('check', () => {
  test('a sound file ends with 0, its references relative to its folder', async () => {
    const file = join(folderWith({ 'c.yaml': CONFIG, secret: 'hunter2\n' }), 'c.yaml');
    assert.deepEqual(await sidekerb(['check', file]), {
      code: 0,
      out: `${file}: valid\n`,
      err: '',
    });
    assert.deepEqual(await sidekerb(['check', file, '--json']), { code: 0, out: '[]\n', err: '' });
  });

  test('six different faults are told at once, each at its line and column, and end with 78', async () => {
    const text = `version: 3
log: { acces: false }
upstreams:
  web: { url: 'http://a@b' }
listeners:
  - name: api
    listen: 127.0.0.1:80a
    routes:
      - { upstream: wbe }
    timeouts:
      head: 15
`;
    const file = join(folderWith({ 'c.yaml': text }), 'c.yaml');
    const { code, out, err } = await sidekerb(['check', file]);
    assert.deepEqual(
      err
        .trimEnd()
        .split('\n')
        .map((line) => line.replace(`${file}:`, '')),
      [
        '1:10: version: wanted: 1',
        '2:8: log.acces: unknown key (did you mean access?)',
        '4:15: upstreams.web.url: a url must not hold a user name or password',
        '7:13: listeners[0].listen: wanted: ADDRESS:PORT with an IP address (IPv6 in brackets) or localhost, or unix:/path',
        '9:21: listeners[0].routes[0].upstream: there is no upstream of this name (did you mean web?)',
        '11:13: listeners[0].timeouts.head: wanted: a duration such as 30s, from 10ms to 10m',
        '6 faults',
      ],
    );
    assert.deepEqual([code, out], [78, '']);
    const json = await sidekerb(['check', file, '--json']);
    assert.equal(json.code, 78);
    assert.equal(json.err, '');
    const rows: { file: string; line: number; hint: unknown }[] = JSON.parse(json.out);
    assert.deepEqual(
      rows.map(({ line }) => line),
      [1, 2, 4, 7, 9, 11],
    );
    assert.deepEqual(
      rows.map(({ hint }) => hint),
      [null, 'access', null, null, 'web', null],
    );
  });

  test('a missing credential ends with 69', async () => {
    const file = join(folderWith({ 'c.yaml': CONFIG }), 'c.yaml');
    const { code, err } = await sidekerb(['check', file]);
    assert.equal(code, 69);
    assert.equal(
      err,
      `${file}:2:54: principals.crm.password: file secret does not exist\n1 faults\n`,
    );
  });

  test('a fault of the file goes before a missing credential: 78', async () => {
    const file = join(folderWith({ 'c.yaml': `${CONFIG}extra: 1\n` }), 'c.yaml');
    const { code, err } = await sidekerb(['check', file]);
    assert.equal(code, 78);
    assert.match(err, /2 faults\n$/);
  });

  test('what is in force is printed with the principal of each hop and without secrets', async () => {
    const file = join(folderWith({ 'c.yaml': CONFIG, secret: 'hunter2\n' }), 'c.yaml');
    const yaml = await sidekerb(['check', file, '--print']);
    const json = await sidekerb(['check', file, '--print', '--json']);
    assert.deepEqual([yaml.code, json.code], [0, 0]);
    assert.ok(!`${yaml.out}${json.out}`.includes('hunter2'));
    const data = JSON.parse(json.out);
    assert.equal(JSON.stringify(parseYaml(yaml.out).data), JSON.stringify(data));
    assert.deepEqual(data.hops, [
      {
        listener: 'api',
        route: '/',
        upstream: 'crm',
        hop: 'origin',
        principal: 'crm',
        by: 'upstream',
      },
    ]);
    assert.equal(data.upstreams.crm.auth.spn, 'HTTP/127.0.0.1');
  });
});

// Each is a process of its own: two at a time, as machines that build have two cores.
describe('usage', { concurrency: 2 }, () => {
  const rows: readonly (readonly [args: string[], err: RegExp])[] = [
    [[], /^sidekerb: a command is missing\nusage: sidekerb run/],
    [['chekc'], /^sidekerb: there is no command chekc\nusage/],
    [['check'], /^sidekerb check: an argument is missing\nusage: sidekerb check FILE/],
    [['check', 'a', 'b'], /^sidekerb check: too many arguments\n/],
    [['check', 'a', '--prnt'], /^sidekerb check: Unknown option '--prnt'/],
    [['run'], /^sidekerb run: --config FILE is missing\n/],
    [['run', '--parent', 'http://p'], /^sidekerb run: --parent URL and --user NAME go together\n/],
    [['run', '--user', 'u', '--config', 'x'], /^sidekerb run: --config FILE says all; /],
    [['run', '--parent', 'p:8080', '--user', 'u'], /^sidekerb run: --parent: wanted: http:/],
    [['run', '--parent', 'http://p', '--user', 'a\\b\\c'], /^sidekerb run: --user: wanted: DOMAIN/],
    [
      ['run', '--parent', 'http://p', '--user', 'u', '--listen', '0.0.0.0:3128'],
      /^sidekerb run: --listen: wanted: an address of this machine alone, /,
    ],
    [['run', '--parent', 'http://p', '--user', 'u'], /^sidekerb run: the password is empty /],
    [['doctor', '--config', 'x'], /^sidekerb doctor: this command: not built yet\n/],
    [['explain', 'http://x'], /^sidekerb explain: --config FILE is missing\n/],
    [['explain', 'x', '--config', 'x'], /^sidekerb explain: URL: wanted: http:/],
    [['explain', 'http://a:b@x', '--config', 'x'], /^sidekerb explain: URL: no user name or /],
    [
      ['explain', 'http://x', '--config', 'x', '--as', 'a', '--principal', 'p'],
      /^sidekerb explain: --principal and --as do not go together/,
    ],
    [['hash', '--htpasswd'], /^sidekerb hash: Option '--htpasswd <value>' argument missing/],
    [['ready', '--url', 'nonsense'], /^sidekerb ready: --url wants/],
  ];
  for (const [args, expected] of rows) {
    test(`64: sidekerb ${args.join(' ')}`, async () => {
      const { code, out, err } = await sidekerb(args);
      assert.match(err, expected);
      assert.deepEqual([code, out], [64, '']);
    });
  }

  for (const command of ['run', 'check', 'doctor', 'explain', 'ready', 'hash', 'demo', 'version']) {
    test(`sidekerb ${command} --help prints its usage`, async () => {
      const { code, out, err } = await sidekerb([command, '--help']);
      assert.ok(out.startsWith(`usage: sidekerb ${command}`));
      assert.deepEqual([code, err], [0, '']);
    });
  }
});

describe('small commands', () => {
  test('hash prints the NT hash of the first line of stdin', async () => {
    // MS-NLMP 4.2.2.1.2: NTOWFv1 of "Password".
    const expected = 'a4f49c406510bdcab6824ee7c30fd852\n';
    for (const stdin of ['Password', 'Password\n', 'Password\r\nmore']) {
      assert.deepEqual(await sidekerb(['hash'], { stdin }), { code: 0, out: expected, err: '' });
    }
  });

  test('hash makes a line of a user file, which the password belongs to', async () => {
    const { code, out } = await sidekerb(['hash', '--htpasswd', 'CORP\\alice'], {
      stdin: 'Pässword',
    });
    assert.equal(code, 0);
    const parsed = parseHtpasswd(out);
    assert.ok('users' in parsed);
    const hash = parsed.users.get('CORP\\alice');
    assert.ok(hash !== undefined && isPasswordOf('Pässword', hash));
    assert.ok(!isPasswordOf('Password', hash));
    const long = { stdin: 'x'.repeat(73) };
    assert.equal((await sidekerb(['hash', '--htpasswd', 'a'], long)).code, 64);
    assert.equal((await sidekerb(['hash', '--htpasswd', 'a:b'], { stdin: 'x' })).code, 64);
  });

  test('explain asks no key server, and waits for none', async () => {
    const gate = new Gate();
    await using idp = await startJwksServer('');
    idp.reply = { kind: 'held', gate, next: { kind: 'hang-up' } };
    const jwt = `jwt: { issuer: i, audience: a, jwks: '${idp.url.href}' }`;
    const config = CONFIG.replace("listen: '127.0.0.1:0',", `$& clients: { ${jwt} },`);
    const file = join(folderWith({ 'c.yaml': config, secret: 'hunter2\n' }), 'c.yaml');
    const { code, out } = await sidekerb(['explain', 'http://127.0.0.1:9/x', '--config', file]);
    assert.notEqual(code, 70, out);
    assert.equal(idp.fetches, 0);
    gate.open();
  });

  test('hash refuses an empty password', async () => {
    assert.equal((await sidekerb(['hash'], { stdin: '\n' })).code, 64);
  });

  test('hash does not wait for the end of stdin', async () => {
    using running = new Running(['hash']);
    running.child.stdin?.write('Password\n');
    assert.equal(await running.ended, 0);
  });

  test('version prints the version of the package', async () => {
    const { code, out } = await sidekerb(['version']);
    assert.match(out, /^sidekerb \d+\.\d+\.\d+\n$/);
    assert.equal(code, 0);
  });

  test('ready is 69 where nothing answers', async () => {
    const { code, err } = await sidekerb(['ready', '--url', `unix:${temporaryFolder()}/none`]);
    assert.equal(code, 69);
    assert.equal(err, 'not ready: no answer (ENOENT)\n');
  });
});

describe('run', () => {
  const daemonConfig = (folder: string, delay: string): string => `version: 1
admin: { listen: 'unix:${folder}/admin.sock' }
shutdown: { delay: ${delay}, grace: 1s }
upstreams: { web: { url: 'http://127.0.0.1:9' } }
listeners: { name: api, listen: '127.0.0.1:0', routes: { upstream: web } }
`;

  interface Started {
    readonly running: Running;
    readonly url: string;
    readonly file: string;
    readonly folder: string;
  }

  async function start(delay: string, more = ''): Promise<Started> {
    const folder = folderWith({});
    const file = join(folder, 'c.yaml');
    writeFileSync(file, daemonConfig(folder, delay) + more);
    const running = new Running(['run', '--config', file]);
    await running.says('"listening"');
    return { running, url: `unix:${folder}/admin.sock`, file, folder };
  }

  test('a faulty configuration opens nothing and ends with 78, a missing credential with 69', async () => {
    const folder = folderWith({ 'bad.yaml': 'version: 2\n', 'poor.yaml': CONFIG });
    const bad = await sidekerb(['run', '--config', join(folder, 'bad.yaml')]);
    assert.deepEqual([bad.code, bad.out], [78, '']);
    assert.match(bad.err, /:1:10: version: wanted: 1\n/);
    assert.equal((await sidekerb(['run', '--config', join(folder, 'poor.yaml')])).code, 69);
  });

  test('an address that is taken ends with 69', async () => {
    const taken = createServer().listen(0, '127.0.0.1');
    await event(taken, 'listening');
    const address = taken.address();
    assert.ok(typeof address === 'object' && address !== null);
    const text = `version: 1
upstreams: { web: { url: 'http://127.0.0.1:9' } }
listeners: { name: api, listen: '127.0.0.1:${address.port}', routes: { upstream: web } }
`;
    const { code, out } = await sidekerb([
      'run',
      '--config',
      join(folderWith({ 'c.yaml': text }), 'c.yaml'),
    ]);
    taken.close();
    assert.equal(code, 69);
    assert.match(out, /EADDRINUSE/);
  });

  for (const signal of ['SIGTERM', 'SIGINT'] as const) {
    test(`${signal} drains and ends with 0`, async () => {
      const { running, url } = await start('0s');
      using _ = running;
      assert.equal((await sidekerb(['ready', '--url', url])).code, 0);
      running.child.kill(signal);
      assert.equal(await running.ended, 0);
      assert.match(running.out, /"draining"/);
    });
  }

  for (const [first, second, code] of [
    ['SIGTERM', 'SIGTERM', 143],
    ['SIGTERM', 'SIGINT', 130],
  ] as const) {
    test(`${second} after ${first} ends at once with ${code}, and meanwhile it is not ready`, async () => {
      const { running, url } = await start('10m');
      using _ = running;
      running.child.kill(first);
      await running.says('"draining"');
      const asked = await sidekerb(['ready', '--url', url]);
      assert.deepEqual([asked.code, asked.err], [69, 'not ready: status 503\n']);
      running.child.kill(second);
      assert.equal(await running.ended, code);
    });
  }

  test('SIGHUP puts a changed file in force, and refuses a faulty one with its faults', async () => {
    const { running, url, file, folder } = await start('0s', 'watch: false\n');
    using _ = running;
    const sound = daemonConfig(folder, '0s');
    writeFileSync(file, `${sound}watch: false\nnonsense: 1\n`);
    running.child.kill('SIGHUP');
    await running.says('reload failed: nothing is changed');
    assert.match(running.out, /"place":"[^"]*c\.yaml:\d+:1","key":"nonsense"/);
    const added = `listen: ['127.0.0.1:0', 'unix:${folder}/api.sock']`;
    writeFileSync(file, `${sound.replace("listen: '127.0.0.1:0'", added)}watch: false\n`);
    running.child.kill('SIGHUP');
    await running.says('the configuration was reloaded');
    assert.match(running.out, /"cause":"signal","listeners":"opened unix:[^"]*api\.sock"/);
    assert.equal((await sidekerb(['ready', '--url', url])).code, 0);
  });

  test('a changed file is put in force without being asked', async () => {
    const { running, file, folder } = await start('0s');
    using _ = running;
    writeFileSync(file, `${daemonConfig(folder, '0s')}limits: { connections: 5 }\n`);
    await running.says('the configuration was reloaded');
    assert.match(running.out, /"cause":"watch"/);
  });
});

describe('the life of the process', () => {
  function lifecycle(start: Lifecycle['start']): {
    life: Lifecycle;
    send: (signal: string) => void;
    exits: number[];
  } {
    const listeners = new Map<string, () => void>();
    const exits: number[] = [];
    const life: Lifecycle = {
      log: noLog,
      start,
      on: (signal, listener) => void listeners.set(signal, listener),
      exit: (code) => void exits.push(code),
    };
    return { life, exits, send: (signal) => listeners.get(signal)?.() };
  }

  test('a signal during the start drains after it', async () => {
    const started = Promise.withResolvers<void>();
    const calls: string[] = [];
    const { life, send, exits } = lifecycle(async () => {
      await started.promise;
      return {
        reload: async () => void calls.push('reload'),
        drain: async () => void calls.push('drain'),
        close: async () => void calls.push('close'),
      };
    });
    const code = live(life);
    send('SIGTERM');
    started.resolve();
    assert.equal(await within(code, 'the end'), 0);
    assert.deepEqual(calls, ['drain', 'close']);
    assert.deepEqual(exits, []);
  });

  test('SIGHUP reloads each time, and one during the start once after it', async () => {
    const started = Promise.withResolvers<void>();
    const reloads: string[] = [];
    const { life, send } = lifecycle(async () => {
      await started.promise;
      return {
        reload: async (cause) => void reloads.push(cause),
        drain: async () => undefined,
        close: async () => undefined,
      };
    });
    const code = live(life);
    send('SIGHUP');
    send('SIGHUP');
    assert.deepEqual(reloads, []);
    started.resolve();
    await until(() => reloads.length === 1, 'the reload after the start');
    send('SIGHUP');
    assert.deepEqual(reloads, ['signal', 'signal']);
    send('SIGTERM');
    assert.equal(await within(code, 'the end'), 0);
  });

  test('a start that fails is 69 for an address, also as a cause, and 70 otherwise', async () => {
    const listen = Object.assign(new Error('taken'), { code: 'EADDRINUSE', syscall: 'listen' });
    for (const [error, code] of [
      [listen, 69],
      [new Error('no', { cause: listen }), 69],
      [new Error('no'), 70],
    ] as const) {
      assert.equal(await live(lifecycle(() => Promise.reject(error)).life), code);
    }
  });
});
