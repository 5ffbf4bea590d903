/** Byte copies of the hot path: short runs by hand, long ones by the runtime. */

// Measured on Node 26: below about this length a loop beats the call into native code.
const SHORT = 24;

/** Copies `source[start, end)` to `target` at `at`; answers the offset after the copy. */
export function copyBytes(
  source: Buffer,
  start: number,
  end: number,
  target: Buffer,
  at: number,
): number {
  const length = end - start;
  if (length >= SHORT) {
    source.copy(target, at, start, end);
    return at + length;
  }
  for (let i = 0; i < length; i += 1) target[at + i] = source[start + i] ?? 0;
  return at + length;
}

/** Copies all of `source`. */
export const copyAll = (source: Buffer, target: Buffer, at: number): number =>
  copyBytes(source, 0, source.length, target, at);

export const latin1 = (text: string): Buffer => Buffer.from(text, 'latin1');

export const CRLF = latin1('\r\n');

/** The interim answer that a caller with `Expect: 100-continue` waits for (RFC 9110 15.2.1). */
export const CONTINUE = latin1('HTTP/1.1 100 Continue\r\n\r\n');

/** The answer to a CONNECT. It has no framing field: what follows is the tunnel (RFC 9110 9.3.6). */
const ESTABLISHED = latin1('HTTP/1.1 200 Connection established\r\n\r\n');

/** The same with whole lines of the listener's own, if there are any. */
export const established = (lines: string | undefined): Buffer =>
  lines === undefined ? ESTABLISHED : latin1(`HTTP/1.1 200 Connection established\r\n${lines}\r\n`);

export const NO_BYTES = Buffer.alloc(0);
