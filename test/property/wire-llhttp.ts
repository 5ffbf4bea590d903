/**
 * Node's own HTTP/1 parser as the second opinion: what does it make of exactly these bytes. The parser
 * object is not public API of Node, so only tests use it.
 */
import { METHODS } from 'node:http';
import { createRequire } from 'node:module';

export interface SecondOpinion {
  readonly kind: 'message' | 'more' | 'refused';
  readonly code?: string;
  readonly method?: string;
  readonly target?: string;
  readonly status?: number;
  readonly body: string;
}

/** Code of a fault that the parser does not name. */
export const STOPPED = 'stopped';

interface RawParser {
  initialize(type: number, resource: object, maxHeaderSize: number, lenient: number): void;
  execute(bytes: Buffer): number | Error;
  finish(): undefined | Error;
  close(): void;
  [event: number]: (...values: never[]) => unknown;
}
interface RawParserClass {
  new (): RawParser;
  readonly REQUEST: number;
  readonly RESPONSE: number;
  readonly kOnHeaders: number;
  readonly kOnHeadersComplete: number;
  readonly kOnBody: number;
  readonly kOnMessageComplete: number;
}

const { HTTPParser } = createRequire(import.meta.url)('_http_common') as {
  readonly HTTPParser: RawParserClass;
};

/** Methods by their number in the parser's callbacks, learned by asking for each name. */
const methodNames = new Map<number, string>();
for (const name of METHODS) {
  const parser = new HTTPParser();
  parser.initialize(HTTPParser.REQUEST, {}, 1 << 20, 0);
  parser[HTTPParser.kOnHeadersComplete] = (
    _1: never,
    _2: never,
    _3: never,
    index: number,
  ): void => {
    methodNames.set(index, name);
  };
  parser.execute(
    Buffer.from(`${name} ${name === 'CONNECT' ? 'h:1' : '/'} HTTP/1.1\r\nHost: h\r\n\r\n`),
  );
  parser.close();
}

/** `noBody`: the request was HEAD, so the answer has no body. `ends`: the peer closes behind the bytes. */
export function askLlhttp(
  kind: 'request' | 'response',
  bytes: Buffer,
  options: { readonly noBody?: boolean; readonly ends?: boolean } = {},
): SecondOpinion {
  const parser = new HTTPParser();
  parser.initialize(kind === 'request' ? HTTPParser.REQUEST : HTTPParser.RESPONSE, {}, 1 << 20, 0);
  let method: string | undefined;
  let target = '';
  let status: number | undefined;
  let body = '';
  let hasHead = false;
  let isComplete = false;
  parser[HTTPParser.kOnHeaders] = (_headers: unknown, url: string): void => {
    // Trailers come here too, with the target again.
    if (!hasHead) target += url;
  };
  parser[HTTPParser.kOnHeadersComplete] = (
    _major: number,
    _minor: number,
    _headers: unknown,
    methodIndex: number | undefined,
    url: string | undefined,
    statusCode: number | undefined,
  ): number => {
    if (methodIndex !== undefined) method = methodNames.get(methodIndex);
    target += url ?? '';
    hasHead = true;
    status = statusCode;
    return options.noBody === true ? 1 : 0;
  };
  parser[HTTPParser.kOnBody] = (part: Buffer): void => {
    body += part.toString('latin1');
  };
  parser[HTTPParser.kOnMessageComplete] = (): void => {
    isComplete = true;
  };
  const result = bytes.length === 0 ? 0 : parser.execute(bytes);
  const failure =
    result instanceof Error ? result : options.ends === true ? parser.finish() : undefined;
  parser.close();
  const facts = {
    body,
    ...(method === undefined ? {} : { method, target }),
    ...(status === undefined ? {} : { status }),
  };
  if (failure instanceof Error) {
    return {
      kind: 'refused',
      code: 'code' in failure ? String(failure.code) : failure.message,
      ...facts,
    };
  }
  // Once it has seen an upgrade, the parser tells its faults only by stopping early.
  if (!isComplete && typeof result === 'number' && result < bytes.length) {
    return { kind: 'refused', code: STOPPED, ...facts };
  }
  return { kind: isComplete ? 'message' : 'more', ...facts };
}
