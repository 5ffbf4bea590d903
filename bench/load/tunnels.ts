/**
 * Load for tunnels: a number of them, so many at a time, each with one order for the far end. Prints one
 * line of JSON with `requests` (tunnels), `seconds` and latencies; ends with 1 when one of them fails.
 */

import { connect, type Socket } from 'node:net';
import { parseArgs } from 'node:util';
import { formatOrder, parseOrder, sendPieces, type TunnelOrder } from './orders.ts';

const READ_BYTES = 256 * 1024;
const END_OF_HEAD = Buffer.from('\r\n\r\n');

interface Load {
  readonly port: number;
  /** `host:port` behind a proxy; undefined: the port leads there. */
  readonly target: string | undefined;
  readonly order: TunnelOrder;
}

/** Resolves once the order is done and the connection is closed. */
function runTunnel({ port, target, order }: Load): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const buffer = Buffer.allocUnsafe(order.job === 'down' ? READ_BYTES : 16 * 1024);
  let head = target === undefined ? undefined : Buffer.alloc(0);
  let left = order.job === 'up' ? 'done\n'.length : order.bytes;
  const take = (bytes: number): void => {
    left -= bytes;
    if (left === 0) socket.end();
    else if (left < 0) socket.destroy(new Error('more bytes than ordered'));
  };
  const socket: Socket = connect({
    port,
    host: '127.0.0.1',
    noDelay: true,
    onread: {
      buffer,
      callback: (count) => {
        if (head === undefined) {
          take(count);
          return true;
        }
        head = Buffer.concat([head, buffer.subarray(0, count)]);
        const end = head.indexOf(END_OF_HEAD);
        if (end < 0) return true;
        const status = head.toString('latin1', 9, 12);
        const early = head.length - end - END_OF_HEAD.length;
        head = undefined;
        if (status !== '200' || early > 0)
          socket.destroy(new Error(`CONNECT is answered ${status}`));
        else place(socket, order);
        return true;
      },
    },
  });
  socket.once('connect', () => {
    if (target === undefined) place(socket, order);
    else socket.write(`CONNECT ${target} HTTP/1.1\r\nHost: ${target}\r\n\r\n`);
  });
  socket.once('error', reject);
  socket.once('close', () => {
    if (left === 0) resolve();
    else reject(new Error(`closed with ${left} bytes missing`));
  });
  return promise;
}

function place(socket: Socket, order: TunnelOrder): void {
  const line = formatOrder(order);
  if (order.job === 'echo') {
    socket.write(line.padEnd(order.bytes, 'x'));
    return;
  }
  socket.write(line);
  if (order.job !== 'up') return;
  const goOn = sendPieces(order.bytes, (piece) => socket.write(piece));
  socket.on('drain', goOn);
  goOn();
}

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      port: { type: 'string' },
      target: { type: 'string' },
      order: { type: 'string' },
      count: { type: 'string', default: '1' },
      connections: { type: 'string', default: '1' },
    },
  });
  const order = parseOrder(values.order ?? '');
  if (order === undefined) throw new Error(`no order: ${values.order}`);
  const load = { port: Number(values.port), target: values.target, order };
  const latencies: number[] = [];
  let open = Number(values.count);
  const lane = async (): Promise<void> => {
    while (open > 0) {
      open -= 1;
      const at = performance.now();
      await runTunnel(load);
      latencies.push(performance.now() - at);
    }
  };
  const start = performance.now();
  await Promise.all(Array.from({ length: Number(values.connections) }, lane));
  const seconds = (performance.now() - start) / 1000;
  latencies.sort((a, b) => a - b);
  const quantile = (part: number): number =>
    latencies[Math.min(latencies.length - 1, Math.floor(latencies.length * part))] ?? 0;
  const requests = latencies.length;
  const result = { requests, seconds, p50Ms: quantile(0.5), p99Ms: quantile(0.99) };
  process.stdout.write(`${JSON.stringify(result)}\n`);
}

await main();
