/**
 * Runs inside the image's tree, in a network of its own: starts the daemon as the container does,
 * waits until `sidekerb ready` agrees, asks what an orchestrator asks, and ends it as one would.
 * Prints one JSON object; judging it is left to image-root.test.ts.
 */
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';

const DEADLINE_MS = 20_000;
const sidekerb = ['/app/cmd/sidekerb.ts'];

const daemon = spawn(
  process.execPath,
  [...sidekerb, 'run', '--config', '/etc/sidekerb/sidekerb.yaml'],
  {
    stdio: ['ignore', 'pipe', 'pipe'],
  },
);
let output = '';
for (const stream of [daemon.stdout, daemon.stderr]) {
  stream.on('data', (piece: Buffer) => {
    output += piece.toString();
  });
}
const ended = once(daemon, 'exit');

const deadline = performance.now() + DEADLINE_MS;
let ready = false;
while (!ready && daemon.exitCode === null && performance.now() < deadline) {
  ready = spawnSync(process.execPath, [...sidekerb, 'ready']).status === 0;
  if (!ready) await delay(50);
}

async function statusOf(url: string): Promise<number | string> {
  try {
    return (await fetch(url)).status;
  } catch (error) {
    return String(error);
  }
}

function canWrite(path: string): boolean {
  try {
    writeFileSync(path, '');
    return true;
  } catch {
    return false;
  }
}

const live = await statusOf('http://127.0.0.1:9181/healthz');
const probedReady = await statusOf('http://127.0.0.1:9181/readyz');
daemon.kill('SIGTERM');
const late = setTimeout(() => daemon.kill('SIGKILL'), DEADLINE_MS);
await ended;
clearTimeout(late);
console.log(
  JSON.stringify({
    user: process.getuid?.(),
    rootIsWritable: canWrite('/app/x') || canWrite('/x'),
    ready,
    live,
    probedReady,
    exitCode: daemon.exitCode,
    signal: daemon.signalCode,
    output,
  }),
);
