/**
 * The thread that checks passwords: one after the other, as they come. Whatever goes wrong ends it,
 * and with it the check (contract: `worker-link.ts`).
 */
import { parentPort } from 'node:worker_threads';
import { parsePasswordHash } from '../../identity/hash-form.ts';
import { isPasswordOf } from './password-hash.ts';
import type { HashAnswer, HashRequest } from './worker-link.ts';

parentPort?.on('message', ({ id, password, hash }: HashRequest) => {
  const parsed = parsePasswordHash(hash);
  if (typeof parsed === 'string') throw new TypeError(parsed);
  const answer: HashAnswer = { id, isRight: isPasswordOf(password, parsed) };
  parentPort?.postMessage(answer, []);
});
