/**
 * Reads user files as `htpasswd` of Apache writes them: one `user:hash` a line. A file is taken whole
 * or not at all: a line that is skipped would be a user who cannot log in and nobody knows why.
 */
import { type PasswordHash, parsePasswordHash } from './hash-form.ts';

/** The users of a file, or its first fault: where, and what is wrong; nothing of the content. */
export type HtpasswdReading =
  { readonly users: ReadonlyMap<string, PasswordHash> } | { readonly fault: string };

/** In UTF-8. The shortest line has 33 bytes, so this bounds the users too: about 30,000. */
const MAX_BYTES = 1024 * 1024;
/** As of the names that callers send, in UTF-16 units. */
const MAX_USER = 256;

/**
 * Further fields of a line are ignored, as nginx does; lines that are blank or start with `#` are
 * skipped; lines may end in CR LF. User names are kept in the case given.
 */
export function parseHtpasswd(text: string): HtpasswdReading {
  if (Buffer.byteLength(text) > MAX_BYTES) return { fault: 'the file is larger than 1 MiB' };
  if (text.startsWith('\ufeff')) {
    return {
      fault: 'line 1: the file starts with a byte order mark; save it as UTF-8 without one',
    };
  }
  const users = new Map<string, PasswordHash>();
  const lineOf = new Map<string, number>();
  let line = 0;
  for (const raw of text.split('\n')) {
    line += 1;
    const content = raw.endsWith('\r') ? raw.slice(0, -1) : raw;
    if (content.startsWith('#') || content.trim() === '') continue;
    const entry = parseLine(content);
    if (typeof entry === 'string') return { fault: `line ${line}: ${entry}` };
    const earlier = lineOf.get(entry.user);
    if (earlier !== undefined) {
      return { fault: `line ${line}: the user stands in line ${earlier} already` };
    }
    lineOf.set(entry.user, line);
    users.set(entry.user, entry.hash);
  }
  return users.size === 0 ? { fault: 'the file names no user' } : { users };
}

interface Entry {
  readonly user: string;
  readonly hash: PasswordHash;
}

function parseLine(content: string): Entry | string {
  const [user = '', hash] = content.split(':', 2);
  if (hash === undefined) return 'no colon; a line is user:hash';
  const fault = userFault(user);
  if (fault !== undefined) return fault;
  if (hash === '') return 'the user has no hash';
  const parsed = parsePasswordHash(hash);
  return typeof parsed === 'string' ? parsed : { user, hash: parsed };
}

/** What decodes Basic credentials refuses these names too: such a user could never log in. */
function userFault(user: string): string | undefined {
  if (user === '') return 'the user name is empty';
  if (user.length > MAX_USER) return `the user name is longer than ${MAX_USER} characters`;
  if (/\p{Cc}/u.test(user)) return 'the user name has control characters';
  if (user.endsWith('\\')) return 'the user name ends in a backslash: a domain without a user';
  // What readers put in the place of bytes that are no UTF-8: several names would become one.
  if (user.includes('\ufffd') || !user.isWellFormed()) return 'the user name is not UTF-8';
  return undefined;
}
