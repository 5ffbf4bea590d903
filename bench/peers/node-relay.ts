/**
 * Peer of the benchmarks: each caller's connection is piped to a connection of its own to the origin,
 * without a look at the bytes. Arguments: port to listen on, port of the origin.
 */

import { connect, createServer, type Socket } from 'node:net';

const [port, originPort] = process.argv.slice(2).map(Number);
if (port === undefined || originPort === undefined) throw new Error('two ports are needed');

createServer({ noDelay: true }, (caller) => {
  const origin = connect({ port: originPort, host: '127.0.0.1', noDelay: true });
  endTogether(caller, origin);
  endTogether(origin, caller);
  caller.pipe(origin);
  origin.pipe(caller);
}).listen({ port, host: '127.0.0.1', backlog: 1024 });

function endTogether(socket: Socket, other: Socket): void {
  socket.on('error', () => undefined);
  socket.on('close', () => other.destroy());
}
