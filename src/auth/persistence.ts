/**
 * How long a login lasts on its connection (R37): read from the final answer of each login.
 *
 * Only facts: whether a request sends a token of its own follows from them and from the configured
 * `auth.persistence`, elsewhere.
 */
import type { Mechanism } from './scheme-choice.ts';

/** The login covers the connection, or the one request that carried the last token. */
export type Persistence = 'connection' | 'request';

/** `unsaid`: a mechanism that could be either, and no word about it. */
export type ObservedPersistence = Persistence | 'unsaid';

/**
 * What the final answer of a completed login says. `values`: those of its `Persistent-Auth` fields
 * (MS-N2HT 2.2.1), one per field line; of anything but one `true` or `false` nothing is believed. Then
 * NTLM and whatever took more than one message (`legs`) lasts, as it authenticates connections; of
 * one token of Kerberos nothing is known.
 */
export function readPersistence(
  values: readonly string[],
  mechanism: Mechanism,
  legs: number,
): ObservedPersistence {
  const [value, ...more] = values.map((text) => text.trim().toLowerCase());
  // Each request has the same credentials with it.
  if (mechanism === 'basic' || mechanism === 'digest') return 'request';
  if (more.length === 0 && value === 'true') return 'connection';
  if (more.length === 0 && value === 'false') return 'request';
  return mechanism === 'kerberos' && legs === 1 ? 'unsaid' : 'connection';
}
