/** CPU time is that of the whole tree, whatever its processes are called. */
import assert from 'node:assert/strict';
import test from 'node:test';
import { parseStat, selectTree, type ProcessStat } from '../../../bench/process-tree.ts';

// proc(5): pid (name) state ppid pgrp session tty tpgid flags minflt cminflt majflt cmajflt utime
// stime cutime cstime priority nice threads itrealvalue starttime vsize rss ...
const FIELDS = 'S 41 1 1 0 -1 0 5 6 7 8 100 20 3 4 20 0 1 0 777 9999 55 0 0';

function stat(pid: number, parent: number): ProcessStat {
  return { pid, parent, ticks: 1, startTicks: 1, rssPages: 1, zombie: false };
}

test('user and system time count, and those of children that have ended', () => {
  assert.deepEqual(parseStat(`42 (nginx) ${FIELDS}\n`), {
    pid: 42,
    parent: 41,
    ticks: 127,
    startTicks: 777,
    rssPages: 55,
    zombie: false,
  });
});

test('a name may hold blanks and parentheses', () => {
  assert.equal(parseStat(`42 (a) S 1 (b) ${FIELDS}`)?.parent, 41);
});

test('a process that has ended and was not waited for is told apart', () => {
  assert.equal(parseStat(`42 (nginx) ${FIELDS.replace('S', 'Z')}`)?.zombie, true);
});

test('what is no line of stat is nothing', () => {
  assert.equal(parseStat(''), undefined);
  assert.equal(parseStat('42 (cut) S 41'), undefined);
});

test('a tree is the root and all that descends from it', () => {
  const all = [stat(1, 0), stat(10, 1), stat(12, 11), stat(11, 10), stat(13, 10), stat(20, 1)];
  const pids = selectTree(all, 10).map((one) => one.pid);
  assert.deepEqual(
    pids.toSorted((a, b) => a - b),
    [10, 11, 12, 13],
  );
});

test('a tree whose root has ended is empty', () => {
  assert.deepEqual(selectTree([stat(11, 10)], 10), []);
});
