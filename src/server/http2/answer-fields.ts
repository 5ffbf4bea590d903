/**
 * What of an HTTP/1.1 answer goes to an HTTP/2 caller: its fields line by line, interim answers,
 * trailers (RFC 9113 8.2.2, 8.1; RFC 9110 6.5).
 */
import type { IncomingMessage, InformationEvent } from 'node:http';
import type { Http2ServerResponse, ServerHttp2Stream } from 'node:http2';

/** Of the hop behind, like those that Connection names; HTTP/2 has none of them. */
const HOP_BY_HOP = [
  'connection',
  'keep-alive',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
  'http2-settings',
];

const RESET_CONTENT = 205;

/** Answers that Node sends over HTTP/2. */
const MAX_STATUS = 599;

export const hasSendableStatus = ({ statusCode }: IncomingMessage): boolean =>
  statusCode !== undefined && statusCode <= MAX_STATUS;

/** Leaves of the answer's fields those that are copied; lines stay apart (hostile row E24). */
export function reduceFields(answer: IncomingMessage): void {
  answer.headers = linesOf(answer.rawHeaders);
  // Node sends no content with it, and a length would promise some (RFC 9110 15.3.6).
  if (answer.statusCode === RESET_CONTENT) delete answer.headers['content-length'];
}

/** Passes an interim answer on, unless it is the relay's word alone or comes too late. */
export function passInterim(stream: ServerHttp2Stream, answer: InformationEvent): void {
  if (stream.destroyed || stream.closed || stream.headersSent) return;
  const fields = linesOf(answer.rawHeaders);
  stream.additionalHeaders({ ...fields, ':status': answer.statusCode });
}

/** Puts the trailers of an answer that has ended behind it. */
export function passTrailers(answer: IncomingMessage, response: Http2ServerResponse): void {
  response.addTrailers(linesOf(answer.rawTrailers));
}

function linesOf(raw: readonly string[]): Record<string, string | string[]> {
  const all = new Map<string, string[]>();
  for (let at = 0; at < raw.length; at += 2) {
    const name = (raw[at] ?? '').toLowerCase();
    const value = raw[at + 1] ?? '';
    const known = all.get(name);
    if (known === undefined) all.set(name, [value]);
    else known.push(value);
  }
  const nominated = (all.get('connection') ?? []).join(',').toLowerCase().split(',');
  for (const name of [...HOP_BY_HOP, ...nominated]) all.delete(name.trim());
  return Object.fromEntries(
    Array.from(all, ([name, values]) => [name, values.length === 1 ? (values[0] ?? '') : values]),
  );
}
