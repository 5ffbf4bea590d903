/**
 * A block of free ports for one lab.
 *
 * The first port of the block is held open for as long as the lab runs: it is the sign by which a
 * second lab on the machine sees that the block is taken, before any server of it has started.
 */
import { createServer } from 'node:net';
import type { Server } from 'node:net';

const LOWEST = 20_000;
// Below the range from which the kernel takes ports for outgoing connections.
const HIGHEST = 32_000;
const BLOCK = 30;
const TRIES = 50;

/** Ports `base + 1` to `base + 29` are the lab's until it is disposed of. */
export interface PortBlock extends AsyncDisposable {
  readonly base: number;
}

/** Takes a block whose ports nobody listens on; throws when none is found in a number of tries. */
export async function takePortBlock(): Promise<PortBlock> {
  for (let i = 0; i < TRIES; i += 1) {
    const base = LOWEST + BLOCK * Math.floor((Math.random() * (HIGHEST - LOWEST)) / BLOCK);
    const guard = await listen(base);
    if (guard === undefined) continue;
    if (await areFree(base)) return { base, [Symbol.asyncDispose]: () => close(guard) };
    await close(guard);
  }
  throw new Error(`no block of ${BLOCK} free ports between ${LOWEST} and ${HIGHEST}`);
}

async function areFree(base: number): Promise<boolean> {
  for (let port = base + 1; port < base + BLOCK; port += 1) {
    const server = await listen(port);
    if (server === undefined) return false;
    await close(server);
  }
  return true;
}

function listen(port: number): Promise<Server | undefined> {
  return new Promise((resolve) => {
    const server = createServer((socket) => socket.destroy());
    server.once('error', () => resolve(undefined));
    server.listen(port, '127.0.0.1', () => resolve(server.unref()));
  });
}

function close(server: Server): Promise<void> {
  return new Promise((resolve) => {
    server.close(() => resolve());
  });
}
