/** `sidekerb demo` as a person runs it: a process, its output, its exit code, the URLs it invites to. */

import assert from 'node:assert/strict';
import { spawn, type ChildProcessByStdio } from 'node:child_process';
import { mkdtempSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { event, until, within } from '../support/waiting.ts';

const PROGRAM = fileURLToPath(new URL('../../cmd/sidekerb.ts', import.meta.url));
const DEADLINE_MS = 20_000;

interface Run extends AsyncDisposable {
  readonly child: ChildProcessByStdio<null, Readable, Readable>;
  /** Standard output and standard error so far. */
  readonly text: () => string;
  readonly exit: Promise<unknown>;
  /** The folder that the run takes for temporary files. */
  readonly scratch: string;
}

function start(...options: string[]): Run {
  const scratch = mkdtempSync(join(temporaryFolder(), 'demo-'));
  const child = spawn(process.execPath, [PROGRAM, 'demo', ...options], {
    env: { ...process.env, TMPDIR: scratch },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let text = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (piece: string) => (text += piece));
  }
  // `close` comes after the last output, `exit` may come before it.
  const exit = event(child, 'close', DEADLINE_MS);
  return {
    child,
    text: () => text,
    exit,
    scratch,
    async [Symbol.asyncDispose]() {
      child.kill('SIGKILL');
      await Promise.allSettled([exit]);
    },
  };
}

describe('sidekerb demo', () => {
  it('--once shows two principals on two sockets, mostly hits, and ends with 0', async () => {
    await using run = start('--once');
    assert.equal(await run.exit, 0, run.text());
    const row = /^(\S+-app) +(GET|POST) \/(\w+)\/\S+ +200 +(\w+) +DEMO\\(\w+) +(\d+) +(\w+)$/gm;
    const rows = [...run.text().matchAll(row)].map((match) => match.slice(3));
    assert.equal(rows.length, 10, run.text());
    const sockets = { alice: new Set<string>(), bob: new Set<string>() };
    for (const [route, principal, user, socket = '', lease] of rows) {
      assert.ok(principal === 'alice' || principal === 'bob');
      assert.deepEqual([route, user], [principal, principal]);
      assert.equal(lease, sockets[principal].has(socket) ? 'hit' : 'new');
      sockets[principal].add(socket);
    }
    assert.equal(sockets.alice.isDisjointFrom(sockets.bob), true);
    assert.match(run.text(), /Hit rate from \/metrics: 8 of 10 requests, 80 %\./);
  });

  it('leaves no secret on disk and has printed none', async () => {
    await using run = start('--once');
    await run.exit;
    // Node's own cache of compiled modules may be there too.
    assert.deepEqual(
      readdirSync(run.scratch).filter((name) => name.startsWith('sidekerb')),
      [],
    );
    // A password is 24 characters of base64url.
    assert.doesNotMatch(run.text(), /[\w-]{24}/);
  });

  it('stays up, answers at every URL that it names, and ends with 0 at Ctrl-C', async () => {
    await using run = start();
    await until(() => run.text().includes('Ctrl-C'), 'the invitation', DEADLINE_MS);
    const urls = run.text().match(/http:\/\/\S+/g) ?? [];
    assert.equal(urls.length, 5);
    for (const url of urls) {
      const answer = await within(fetch(url, { headers: { connection: 'close' } }), url);
      assert.equal(answer.status, 200, url);
      const text = await answer.text();
      const caller = /\/(alice|bob)\/hello$/.exec(url)?.[1];
      if (caller !== undefined) assert.match(text, new RegExp(`"user":"DEMO\\\\\\\\${caller}"`));
    }
    run.child.kill('SIGINT');
    assert.equal(await run.exit, 0, run.text());
  });
});
