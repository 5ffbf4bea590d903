/**
 * Peer of the benchmarks: http-proxy-3 as its users run it, with an agent that keeps connections.
 * Arguments: port to listen on, port of the origin.
 */

import { Agent, createServer, ServerResponse } from 'node:http';
import { createProxyServer } from 'http-proxy-3';

const [port, originPort] = process.argv.slice(2).map(Number);
if (port === undefined || originPort === undefined) throw new Error('two ports are needed');

const KEPT_SOCKETS = 512;
const IDLE_MS = 60_000;

const proxy = createProxyServer({
  target: `http://127.0.0.1:${originPort}`,
  agent: new Agent({ keepAlive: true, maxFreeSockets: KEPT_SOCKETS }),
});
proxy.on('error', (_error, _request, response) => {
  // The load generator must see that something went wrong.
  if (response instanceof ServerResponse && !response.headersSent) response.writeHead(502).end();
  else response.destroy();
});

createServer({ noDelay: true, keepAliveTimeout: IDLE_MS }, (request, response) => {
  proxy.web(request, response);
}).listen({ port, host: '127.0.0.1', backlog: 1024 });
