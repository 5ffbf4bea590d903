/**
 * The rest of an upload whose answer has been sent: read and thrown away for a while, so that the caller
 * gets to the answer; then he is told to stop (RFC 9113 8.1). Bounds are those of HTTP/1.1 callers.
 */
import { constants, type ServerHttp2Stream } from 'node:http2';
import { Deadline, type DeadlineWheel } from '../../deadlines.ts';

const LINGER_MS = 2000;
const LINGER_BYTES = 1024 * 1024;

/** Called when an answer has ended and everything of it was taken by the session. */
export function discardUpload(stream: ServerHttp2Stream, deadlines: DeadlineWheel): void {
  if (stream.readableEnded || stream.destroyed) return;
  let discarded = 0;
  const stop = (): void => {
    // The caller reset it: with NO_ERROR, Node waits for an end that does not come.
    if (stream.closed) stream.destroy();
    // An answer whose end has not left would be cut by this: its caller reads slowly, and is waited for.
    else if (stream.state.localClose === 1) stream.close(constants.NGHTTP2_NO_ERROR);
    if (!stream.destroyed) deadlines.arm(deadline, LINGER_MS);
  };
  const deadline = new Deadline(stop);
  deadlines.arm(deadline, LINGER_MS);
  stream.once('close', () => deadlines.disarm(deadline));
  stream.unpipe();
  stream.on('data', (bytes: Buffer) => {
    discarded += bytes.length;
    if (discarded > LINGER_BYTES) stop();
  });
  stream.resume();
}
