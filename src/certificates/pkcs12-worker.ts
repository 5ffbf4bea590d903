/**
 * The thread that opens one store and ends. Only text in the clear goes back; what it was given is
 * wiped, the rest goes with the thread's heap (contract: `pkcs12-link.ts`).
 */
import { parentPort } from 'node:worker_threads';
import { openPkcs12 } from './pkcs12.ts';
import type { OpeningRequest } from './pkcs12-link.ts';

parentPort?.once('message', ({ bytes, passphrase }: OpeningRequest) => {
  const answer = openPkcs12(bytes, passphrase);
  bytes.fill(0);
  parentPort?.postMessage(answer, []);
});
