/** Openings: real threads, and scripted ones for what must not be left to chance. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { createPrivateKey, X509Certificate } from 'node:crypto';
import { before, describe, mock, test } from 'node:test';
import { promisify } from 'node:util';
import { pkcs12Fault, type Pkcs12Fault } from '../../../src/certificates/pkcs12-fault.ts';
import type {
  OpeningEvents,
  StartOpening,
  StoreSource,
} from '../../../src/certificates/pkcs12-link.ts';
import { type OpenedStore, Pkcs12Opener } from '../../../src/certificates/pkcs12-opener.ts';
import { Secret } from '../../../src/identity/secret.ts';
import { within } from '../../support/waiting.ts';
import { type Issued, issue, keyAndCert, store } from './stores.ts';

const ROOT = new URL('../../../', import.meta.url);
const WORD = 'passphrase-canary';
const LONG_MS = 60_000;

const sourceOf = (bytes: Uint8Array, word = WORD): StoreSource => ({
  pkcs12: new Secret(Buffer.from(bytes)),
  passphrase: new Secret(word),
});

const reasonOf = (answer: OpenedStore | Pkcs12Fault): string =>
  answer.kind === 'fault' ? answer.reason : answer.kind;

/** Threads that do what the test says, when it says so. */
class Script {
  readonly started: OpeningEvents[] = [];
  readonly killed: OpeningEvents[] = [];
  readonly opener: Pkcs12Opener;

  constructor() {
    const start: StartOpening = (_source, events) => {
      this.started.push(events);
      return {
        kill: () => {
          this.killed.push(events);
        },
      };
    };
    this.opener = new Pkcs12Opener({ start });
  }

  open(): Promise<string> {
    return this.opener.open(sourceOf(Buffer.of(this.started.length))).then(reasonOf);
  }

  answer(at: number): void {
    this.started[at]?.answered({ kind: 'content', key: 'key', certificates: [] });
  }

  end(at: number, reason?: string): void {
    this.started[at]?.ended(reason);
  }
}

describe('an opener of PKCS#12 stores', () => {
  let end: Issued;
  let quick: Buffer;

  before(() => {
    end = issue('leaf.test');
    quick = store(WORD, keyAndCert(end));
  });

  test('gives the key as a secret, and the certificates', async () => {
    const answer = await within(new Pkcs12Opener().open(sourceOf(quick)), 'the store', LONG_MS);
    assert.ok(answer.kind === 'opened');
    assert.ok(createPrivateKey(answer.key.reveal()).equals(createPrivateKey(end.key)));
    assert.equal(new X509Certificate(answer.certificates[0] ?? '').subject, 'CN=leaf.test');
    assert.doesNotMatch(JSON.stringify(answer), /PRIVATE/);
  });

  test('leaves the bytes that it was given as they are', async () => {
    const opener = new Pkcs12Opener();
    const source: StoreSource = {
      pkcs12: new Secret(quick.subarray()),
      passphrase: new Secret(WORD),
    };
    const copy = Buffer.from(quick);
    const answer = await within(opener.open(source), 'the store', LONG_MS);
    assert.equal(reasonOf(answer), 'opened');
    assert.deepEqual(source.pkcs12.reveal(), copy);
  });

  test('says why a store cannot be used, and not with what it was tried', async () => {
    const opener = new Pkcs12Opener();
    const answers = Promise.all([
      opener.open(sourceOf(quick, 'another-canary')),
      opener.open({ pkcs12: new Secret(quick), passphrase: undefined }),
      opener.open(sourceOf(Buffer.from('bytes-canary'))),
      opener.open(sourceOf(Buffer.alloc(0))),
    ]);
    const faults = await within(answers, 'the stores', LONG_MS);
    const reasons = ['wrong-passphrase', 'wrong-passphrase', 'damaged', 'damaged'];
    assert.deepEqual(faults.map(reasonOf), reasons);
    assert.doesNotMatch(JSON.stringify(faults), /canary/);
  });

  test('leaves the event loop free while it opens a store of 600,000 iterations', async () => {
    const slow = store(WORD, [...keyAndCert(end), '-iter', '600000']);
    let turns = 0;
    let isOver = false;
    const turn = (): void => {
      turns += 1;
      if (!isOver) setImmediate(turn);
    };
    const opening = new Pkcs12Opener().open(sourceOf(slow)).finally(() => {
      isOver = true;
    });
    turn();
    assert.equal(reasonOf(await within(opening, 'the store', LONG_MS)), 'opened');
    // On this thread it would be one turn, or two; beside it there are thousands.
    assert.ok(turns > 100, String(turns));
  });

  test('ends real threads at their deadline, and the places are free again', async () => {
    const late = new Pkcs12Opener({ deadlineMs: 1 });
    const answers = Promise.all([1, 2, 3].map(() => late.open(sourceOf(quick))));
    for (const answer of await within(answers, 'the deadlines', LONG_MS)) {
      assert.ok(answer.kind === 'fault');
      assert.equal(answer.reason, 'not-opened');
      assert.match(answer.message, /within 0\.001 seconds/);
    }
  });

  test('runs two threads at a time and the others in their order', async () => {
    const script = new Script();
    const answers = [1, 2, 3, 4].map(() => script.open());
    assert.equal(script.started.length, 2);
    script.answer(1);
    assert.equal(await answers[1], 'opened');
    // The thread is told to go, and its place is free when it has gone.
    assert.deepEqual(script.killed, [script.started[1]]);
    assert.equal(script.started.length, 2);
    script.end(1);
    assert.equal(script.started.length, 3);
    script.end(0, 'ERR_WORKER_OUT_OF_MEMORY');
    assert.equal(await answers[0], 'not-opened');
    script.answer(2);
    script.answer(3);
    assert.deepEqual(await Promise.all(answers.slice(2)), ['opened', 'opened']);
    script.end(2);
    script.end(3);
  });

  test('gives up after 30 seconds, and keeps the place until the thread has gone', async () => {
    mock.timers.enable({ apis: ['setTimeout'] });
    try {
      const script = new Script();
      const answers = [1, 2, 3].map(() => script.open());
      mock.timers.tick(29_999);
      assert.equal(script.killed.length, 0);
      mock.timers.tick(1);
      assert.deepEqual(await Promise.all(answers.slice(0, 2)), ['not-opened', 'not-opened']);
      assert.equal(script.killed.length, 2);
      assert.equal(script.started.length, 2);
      script.end(0);
      assert.equal(script.started.length, 3);
      // The deadline of a store begins with its thread.
      mock.timers.tick(29_999);
      script.answer(2);
      assert.equal(await answers[2], 'opened');
    } finally {
      mock.timers.reset();
    }
  });

  test('names what ended the thread, or that there was none', async () => {
    const script = new Script();
    const dead = script.opener.open(sourceOf(quick));
    script.end(0, 'ERR_WORKER_OUT_OF_MEMORY');
    assert.match(
      JSON.stringify(await dead),
      /the thread for it ended \(ERR_WORKER_OUT_OF_MEMORY\)/,
    );
    const start: StartOpening = () => {
      throw new RangeError('text-canary');
    };
    const none = JSON.stringify(await new Pkcs12Opener({ start }).open(sourceOf(quick)));
    assert.match(none, /not-opened.*\(RangeError\)/);
    assert.doesNotMatch(none, /canary/);
  });

  test('that is closed answers all who wait, and ends its threads', async () => {
    const script = new Script();
    const answers = [1, 2, 3].map(() => script.open());
    script.opener.close();
    answers.push(script.open());
    assert.deepEqual(new Set(await Promise.all(answers)), new Set(['not-opened']));
    assert.equal(script.started.length, 2);
    assert.equal(script.killed.length, 2);
    script.end(0);
    script.end(1);
    assert.equal(script.started.length, 2);
  });

  test('a late answer changes nothing', async () => {
    const script = new Script();
    const answer = script.open();
    script.started[0]?.answered(pkcs12Fault('no-key', 'has no private key'));
    script.answer(0);
    script.end(0);
    assert.equal(await answer, 'no-key');
  });

  test('keeps the process alive until the store is opened, and no longer', async () => {
    const program = `
      import { Pkcs12Opener } from './src/certificates/pkcs12-opener.ts';
      import { Secret } from './src/identity/secret.ts';
      const pkcs12 = new Secret(Buffer.from('${quick.toString('base64')}', 'base64'));
      const answer = await new Pkcs12Opener().open({ pkcs12, passphrase: new Secret('${WORD}') });
      console.log(answer.kind);
    `;
    const flags = ['--input-type=module', '-e', program];
    const ended = promisify(execFile)(process.execPath, flags, { cwd: ROOT, timeout: 20_000 });
    const { stdout, stderr } = await within(ended, 'the process ends', 20_000);
    assert.deepEqual([stdout, stderr], ['opened\n', '']);
  });
});
