/** The real thread: it answers, it leaves the event loop free, it dies alone and keeps nobody alive. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { describe, test } from 'node:test';
import { decoyOf, PasswordHash, parsePasswordHash } from '../../../../src/identity/hash-form.ts';
import {
  type HashWorker,
  type StartHashWorker,
  startHashWorker,
} from '../../../../src/inbound/htpasswd/worker-link.ts';
import { within } from '../../../support/waiting.ts';
import { CheckWorld } from './check-world.ts';

const KNOWN = '$2a$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW';
const ROOT = new URL('../../../../', import.meta.url);

function hashOf(text: string): PasswordHash {
  const hash = parsePasswordHash(text);
  assert.ok(typeof hash !== 'string', String(hash));
  return hash;
}

/** Slow enough that whatever else is ready runs before its answer. */
const slow = (cost: number): PasswordHash => decoyOf(new PasswordHash('', 'bcrypt', cost));

class RealWorld extends CheckWorld {
  readonly links: HashWorker[];

  constructor() {
    const links: HashWorker[] = [];
    const start: StartHashWorker = (events) => {
      const link = startHashWorker(events);
      links.push(link);
      return link;
    };
    super(start);
    this.links = links;
  }

  [Symbol.dispose](): void {
    this.checks.close();
  }
}

describe('the thread that checks passwords', () => {
  test('tells the right password from others', async () => {
    using world = new RealWorld();
    const words = ['U*U', 'U*V', ''].map((each) => world.check('alice', each, hashOf(KNOWN)));
    assert.deepEqual(await within(Promise.all(words), 'the answers'), ['right', 'wrong', 'wrong']);
    assert.equal(world.links.length, 1);
  });

  test('leaves the event loop free while it computes', async () => {
    using world = new RealWorld();
    let turns = 0;
    let isOver = false;
    const turn = (): void => {
      turns += 1;
      if (!isOver) setImmediate(turn);
    };
    const check = world.check('alice', 'x', slow(9)).finally(() => {
      isOver = true;
    });
    turn();
    assert.equal(await within(check, 'the answer'), 'wrong');
    // One turn would be its own; a check on this thread would leave none at all.
    assert.ok(turns > 10, String(turns));
  });

  test('may be killed in the middle of a check, which is then busy; another takes over', async () => {
    using world = new RealWorld();
    const lost = world.check('alice', 'U*U', slow(15));
    const next = world.check('bob', 'U*U', hashOf(KNOWN));
    using later = new RealWorld();
    // By then the first thread is most likely at work too; its check takes seconds.
    await within(later.check('x', 'U*U', hashOf(KNOWN)), 'a thread that was started later answers');
    world.links[0]?.kill();
    assert.equal(await within(lost, 'the answer'), 'caller-check-busy');
    assert.equal(await within(next, 'the answer'), 'right');
    assert.equal(world.links.length, 2);
  });

  test('dies of a hash that it cannot read, and tells nothing of it', async () => {
    using world = new RealWorld();
    const broken = new PasswordHash('$2a$hash-canary', 'bcrypt', 5);
    const lost = world.check('alice', 'password-canary', broken);
    const next = world.check('alice', 'U*U', hashOf(KNOWN));
    assert.equal(await within(lost, 'the answer'), 'caller-check-busy');
    assert.equal(await within(next, 'the answer'), 'right');
    assert.equal(world.warnings.length, 1);
    assert.match(world.warnings.join(), /"reason":"TypeError"/);
    assert.doesNotMatch(world.warnings.join(), /canary/);
  });

  for (const [state, then] of [
    ['idle', ''],
    ['at work', "worker.send(2, new Secret('x'), hash(15));"],
  ] as const) {
    test(`does not keep the process alive, ${state}`, async () => {
      const program = `
        import { startHashWorker } from './src/inbound/htpasswd/worker-link.ts';
        import { decoyOf, PasswordHash } from './src/identity/hash-form.ts';
        import { Secret } from './src/identity/secret.ts';
        const alive = setInterval(() => undefined, 1000);
        const hash = (cost) => decoyOf(new PasswordHash('', 'bcrypt', cost));
        const worker = startHashWorker({
          answered: ({ id }) => {
            console.log('answered', id);
            if (id === 1) { ${then} }
            clearInterval(alive);
          },
          ended: () => console.log('ended'),
        });
        worker.send(1, new Secret('x'), hash(4));
      `;
      const flags = ['--input-type=module', '-e', program];
      const ended = promisify(execFile)(process.execPath, flags, { cwd: ROOT, timeout: 20_000 });
      const { stdout, stderr } = await within(ended, 'the process ends', 20_000);
      assert.deepEqual([stdout, stderr], ['answered 1\n', '']);
    });
  }
});
