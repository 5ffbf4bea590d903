/**
 * The far end of tunnels: does what the first line of a connection says (`orders.ts`), and says `done`
 * after bytes it received. Prints `{"port":N}` once it listens on 127.0.0.1.
 */

import { createServer, type Socket } from 'node:net';
import { MAX_ORDER_BYTES, parseOrder, sendPieces, type TunnelOrder } from './orders.ts';

const DONE = Buffer.from('done\n');
/** Answers of the echo by size: made once. */
const answers = new Map<number, Buffer>();

const server = createServer({ noDelay: true }, (socket) => {
  let received = 0;
  let order: TunnelOrder | undefined;
  socket.on('error', () => undefined);
  socket.on('data', (bytes: Buffer) => {
    let counted = bytes.length;
    if (order === undefined) {
      const end = bytes.indexOf('\n');
      order = end < 0 ? undefined : parseOrder(bytes.toString('latin1', 0, end));
      if (order === undefined || end >= MAX_ORDER_BYTES) {
        socket.destroy();
        return;
      }
      if (order.job === 'down') send(socket, order.bytes);
      // The line is part of an exchange of equal sizes, and not of bulk bytes.
      if (order.job === 'up') counted -= end + 1;
    }
    received += counted;
    if (order.job === 'down' || received < order.bytes) return;
    socket.write(order.job === 'up' ? DONE : answerOf(order.bytes));
  });
});

function send(socket: Socket, bytes: number): void {
  const goOn = sendPieces(bytes, (piece) => socket.write(piece));
  socket.on('drain', goOn);
  goOn();
}

function answerOf(bytes: number): Buffer {
  const known = answers.get(bytes) ?? Buffer.alloc(bytes, 'y');
  answers.set(bytes, known);
  return known;
}

server.listen({ port: 0, host: '127.0.0.1', backlog: 1024 }, () => {
  const address = server.address();
  const port = typeof address === 'object' && address !== null ? address.port : 0;
  process.stdout.write(`${JSON.stringify({ port })}\n`);
});
process.once('SIGTERM', () => process.exit(0));
