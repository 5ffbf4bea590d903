/**
 * Reads a password: without echo from a terminal, once or twice, or one line from anything else.
 */

import type { ReadStream } from 'node:tty';

/** Longest input that is read; more is no password. */
const MAX_BYTES = 4096;

const ENTER = new Set([0x0a, 0x0d, 0x04]);
const BACKSPACE = new Set([0x08, 0x7f]);
const CONTROL_C = 0x03;

/** A stream like `process.stdin`; it is not usable afterwards. */
export type PasswordInput = Pick<ReadStream, 'isTTY' | 'setRawMode'> & AsyncIterable<Uint8Array>;

/**
 * `twice`: a new password, which nobody else would check. undefined: empty, malformed, or typed
 * differently the second time. Control-C is the signal.
 */
export async function readPassword(
  input: PasswordInput,
  prompt: (text: string) => void,
  times: 'once' | 'twice' = 'twice',
): Promise<string | undefined> {
  const bytes = bytesOf(input);
  try {
    return input.isTTY ? await ask(input, bytes, prompt, times) : decode(await readLine(bytes));
  } finally {
    // A pipe that its writer keeps open would keep the process alive.
    await bytes.return();
  }
}

async function ask(
  input: PasswordInput,
  bytes: Bytes,
  prompt: (text: string) => void,
  times: 'once' | 'twice',
): Promise<string | undefined> {
  input.setRawMode(true);
  try {
    prompt('Password: ');
    const first = decode(await readLine(bytes));
    if (times === 'once') return first;
    prompt('\nThe same again: ');
    const second = decode(await readLine(bytes));
    return first === second ? first : undefined;
  } finally {
    prompt('\n');
    input.setRawMode(false);
  }
}

type Bytes = AsyncGenerator<number, void, undefined>;

async function* bytesOf(input: AsyncIterable<Uint8Array>): Bytes {
  for await (const chunk of input) yield* chunk;
}

async function readLine(bytes: Bytes): Promise<Uint8Array> {
  const line: number[] = [];
  while (line.length <= MAX_BYTES) {
    const { value } = await bytes.next();
    if (value === undefined || ENTER.has(value)) break;
    if (value === CONTROL_C) process.kill(process.pid, 'SIGINT');
    else if (BACKSPACE.has(value)) removeCharacter(line);
    else line.push(value);
  }
  return Uint8Array.from(line);
}

/** Takes the last character away, which in UTF-8 may be several bytes. */
function removeCharacter(line: number[]): void {
  while (line.length > 0 && ((line.pop() ?? 0) & 0xc0) === 0x80);
}

function decode(line: Uint8Array): string | undefined {
  if (line.length === 0 || line.length > MAX_BYTES) return undefined;
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(line);
  } catch {
    // The decoder's only error: the bytes are no UTF-8.
    return undefined;
  }
}
