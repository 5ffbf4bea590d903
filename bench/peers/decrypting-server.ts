/**
 * A TLS server that opens its PKCS#12 store anew for each handshake (document 002 of the sources): what a
 * server is like that keeps no decrypted key. Node's own TLS otherwise.
 */

import { readFileSync } from 'node:fs';
import { createSecureContext, createServer } from 'node:tls';
import { parseArgs } from 'node:util';

const { values } = parseArgs({
  options: { port: { type: 'string' }, store: { type: 'string' }, passphrase: { type: 'string' } },
});
const pfx = readFileSync(values.store ?? '');
const passphrase = values.passphrase ?? '';

const server = createServer(
  { SNICallback: (_name, answer) => answer(null, createSecureContext({ pfx, passphrase })) },
  (socket) => {
    socket.on('error', () => undefined);
    socket.resume();
  },
);
server.on('tlsClientError', (_error, socket) => socket.destroy());
server.listen(Number(values.port), '127.0.0.1');
