/**
 * Peer of the benchmarks: http-proxy-3 behind Node's HTTP/2 server, with an agent that keeps connections.
 * Arguments: port to listen on, port of the origin, files of the certificate and its key.
 */

import { readFileSync } from 'node:fs';
import { Agent, type IncomingMessage, type ServerResponse } from 'node:http';
import { createSecureServer } from 'node:http2';
import { createProxyServer } from 'http-proxy-3';

const [port = '', originPort = '', certFile = '', keyFile = ''] = process.argv.slice(2);

const proxy = createProxyServer({
  target: `http://127.0.0.1:${originPort}`,
  agent: new Agent({ keepAlive: true, maxFreeSockets: 512 }),
});
proxy.on('error', (_error, _request, response) => {
  if ('stream' in response) response.destroy();
});

const tls = { cert: readFileSync(certFile), key: readFileSync(keyFile) };
createSecureServer(tls, (request, response) => {
  // The package's types know HTTP/1.1 only; it is made for this all the same.
  proxy.web(request as unknown as IncomingMessage, response as unknown as ServerResponse);
}).listen({ port: Number(port), host: '127.0.0.1', backlog: 1024 });
