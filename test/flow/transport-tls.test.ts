/**
 * TLS brings several reads out of one packet, and goes on with them when the first one asks to stop: whoever
 * stopped gets them later, in order, before the end.
 */

import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { describe, it } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { connect, createServer, type Server, type TLSSocket } from 'node:tls';
import {
  createReadBuffers,
  Transport,
  type TransportOwner,
} from '../../src/transport/transport.ts';
import { testCertificate } from '../support/certificates.ts';
import { until } from '../support/waiting.ts';

/** One packet on loopback, and several reads of the smallest buffer. */
const BYTES = 40 * 1024;
/** Turns of the event loop after which what comes by itself has come. */
const TURNS = 20;

class Reader implements TransportOwner {
  readonly events: string[] = [];
  readonly #pieces: Buffer[] = [];
  /** Whether to go on after the next read. */
  goesOn = false;

  received(buffer: Buffer, start: number, end: number): boolean {
    this.#pieces.push(Buffer.from(buffer.subarray(start, end)));
    this.events.push('bytes');
    return this.goesOn;
  }

  drained(): void {
    this.events.push('drained');
  }

  ended(): void {
    this.events.push('ended');
  }

  closed(): void {
    this.events.push('closed');
  }

  get bytes(): Buffer {
    return Buffer.concat(this.#pieces);
  }
}

interface World extends AsyncDisposable {
  readonly server: TLSSocket;
  readonly reader: Reader;
  readonly transport: Transport;
  /** What the reader's side has of the server's bytes. */
  arrived(): number;
}

async function startWorld(): Promise<World> {
  const { key, cert, ca } = testCertificate();
  const accepting: Server = createServer({ key, cert, allowHalfOpen: true });
  accepting.listen(0, '127.0.0.1');
  await once(accepting, 'listening');
  const { port } = accepting.address() as AddressInfo;
  const reader = new Reader();
  const transport = new Transport(reader, createReadBuffers());
  const accepted = once(accepting, 'secureConnection');
  // Node hands `onread` on to net.connect; its types do not say so.
  const reading: object = { onread: transport.onread() };
  const options = { host: '127.0.0.1', port, ca, servername: '', allowHalfOpen: true };
  const socket = connect({ ...options, ...reading });
  transport.attach(socket);
  const [[server]] = await Promise.all([accepted, once(socket, 'secureConnect')]);
  return {
    server,
    reader,
    transport,
    arrived: () => transport.bytesRead,
    [Symbol.asyncDispose]: async () => {
      socket.destroy();
      server.destroy();
      accepting.close();
      await once(accepting, 'close');
    },
  };
}

const turns = async (): Promise<void> => {
  for (let i = 0; i < TURNS; i += 1) await nextTurn();
};

describe('a transport over TLS that was asked to stop', () => {
  it('keeps what came with the same packet until it is resumed', async () => {
    await using world = await startWorld();
    const { reader, transport } = world;
    const sent = randomBytes(BYTES);
    world.server.write(sent);
    await until(() => reader.events.length > 0, 'a read');
    await turns();
    assert.deepEqual(reader.events, ['bytes']);
    assert.ok(world.arrived() > reader.bytes.length, 'TLS went on');
    // Again it stops after the first call.
    transport.resume();
    await turns();
    assert.deepEqual(reader.events, ['bytes', 'bytes']);
    reader.goesOn = true;
    transport.resume();
    await until(() => reader.bytes.length === BYTES, 'all bytes');
    assert.ok(reader.bytes.equals(sent));
  });

  it('tells the end after the bytes before it', async () => {
    await using world = await startWorld();
    const { reader, transport } = world;
    const sent = randomBytes(BYTES);
    world.server.end(sent);
    await until(() => reader.events.length > 0, 'a read');
    await turns();
    assert.deepEqual(reader.events, ['bytes']);
    reader.goesOn = true;
    transport.resume();
    await until(() => reader.events.includes('ended'), 'the end');
    assert.ok(reader.bytes.equals(sent));
    assert.equal(reader.events.indexOf('ended'), reader.events.length - 1);
  });

  it('gives what it keeps when the connection closes meanwhile', async () => {
    await using world = await startWorld();
    const { reader, transport } = world;
    transport.end();
    const sent = randomBytes(BYTES);
    world.server.end(sent);
    await until(() => reader.events.includes('closed') || transport.bytesRead >= BYTES, 'all');
    transport.resume();
    reader.goesOn = true;
    transport.resume();
    await until(() => reader.events.includes('closed'), 'the close');
    assert.ok(reader.bytes.equals(sent));
    assert.deepEqual(reader.events.slice(-2), ['ended', 'closed']);
  });
});
