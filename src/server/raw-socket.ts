/**
 * Turns an accepted connection into a transport that reads into buffers of our own.
 *
 * Node has `onread` for sockets that it dials, not for those that it accepts. The handle of a paused
 * accepted socket can be given to a new socket with that option; the handle is a private field of
 * Node (`_handle`, Node 24 to 26), so a self-test at start decides whether this works, and the
 * public way (a buffer per read) serves otherwise. This is the only file that touches it; it goes
 * when `net.Server` gets `onread`.
 */
import { connect, createServer, Socket } from 'node:net';
import {
  createReadBuffers,
  type ReadBuffers,
  Transport,
  type TransportOwner,
} from '../transport/transport.ts';

export type SocketEngine = 'handle' | 'public';

/** An owner for the moment between attaching and the first real one. */
export const NOBODY: TransportOwner = {
  received: () => true,
  drained: () => undefined,
  ended: () => undefined,
  closed: () => undefined,
};

/** Node's name of the field. */
const HANDLE = '_handle';

/** Takes an accepted socket over; with `handle` it must have been accepted with `pauseOnConnect`. */
export function acceptTransport(
  engine: SocketEngine,
  accepted: Socket,
  buffers: ReadBuffers,
): Transport {
  const transport = new Transport(NOBODY, buffers);
  if (engine === 'public') {
    transport.attachEvents(accepted);
    return transport;
  }
  const holder = accepted as unknown as { [HANDLE]: unknown };
  const handle = holder[HANDLE];
  // The first socket must not close what it no longer owns.
  holder[HANDLE] = null;
  const options = { handle, allowHalfOpen: true, onread: transport.onread() };
  const socket = new Socket(options as ConstructorParameters<typeof Socket>[0]);
  transport.attach(socket);
  socket.resume();
  return transport;
}

const TEST_MS = 2000;
const TEST_TEXT = 'sidekerb self-test';

/**
 * Tries the private way on a loopback connection of its own: bytes in, bytes out, FIN both ways.
 * Answers `public` on any doubt.
 */
export async function chooseEngine(): Promise<SocketEngine> {
  const server = createServer({ pauseOnConnect: true, allowHalfOpen: true });
  try {
    const works = await new Promise<boolean>((resolve) => {
      const timer = setTimeout(() => resolve(false), TEST_MS).unref();
      const settle = (result: boolean): void => {
        clearTimeout(timer);
        resolve(result);
      };
      server.once('error', () => settle(false));
      server.once('connection', (accepted) => {
        try {
          echoOnce(accepted);
        } catch {
          settle(false);
        }
      });
      server.listen(0, '127.0.0.1', () => {
        const address = server.address();
        if (address === null || typeof address === 'string') settle(false);
        else tryEcho(address.port, settle);
      });
    });
    return works ? 'handle' : 'public';
  } finally {
    server.close();
  }
}

function echoOnce(accepted: Socket): void {
  const transport = acceptTransport('handle', accepted, createReadBuffers());
  transport.owner = {
    ...NOBODY,
    received: (buffer, start, end) => transport.write(buffer.subarray(start, end), transport),
    ended: () => transport.end(),
  };
}

function tryEcho(port: number, settle: (works: boolean) => void): void {
  let echoed = '';
  const client = connect(port, '127.0.0.1', () => client.end(TEST_TEXT));
  client.setEncoding('latin1');
  client.on('data', (text: string) => {
    echoed += text;
  });
  client.on('error', () => settle(false));
  client.on('close', () => settle(echoed === TEST_TEXT));
}
