/**
 * Makes mutated HTTP/1.x messages from a seed: sound messages first, then a few hostile edits that
 * know where lines, values and chunk framing are. The same seed gives the same message everywhere.
 */

/** A small generator (mulberry32); good enough to choose edits, and reproducible. */
export class Random {
  #state: number;
  constructor(seed: number) {
    this.#state = seed | 0;
  }
  /** A whole number from 0 to `bound` - 1. */
  below(bound: number): number {
    this.#state = (this.#state + 0x6d2b79f5) | 0;
    let t = Math.imul(this.#state ^ (this.#state >>> 15), 1 | this.#state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) % bound;
  }
  pick<T>(list: readonly T[]): T {
    return list[this.below(list.length)] as T;
  }
  chance(percent: number): boolean {
    return this.below(100) < percent;
  }
}

const METHODS = [
  'GET',
  'POST',
  'PUT',
  'HEAD',
  'DELETE',
  'OPTIONS',
  'PROPFIND',
  'CONNECT',
  'get',
  'PRI',
  'X-Y',
];
const TARGETS = [
  '/',
  '/a?b=c',
  '/a/../b',
  '*',
  'http://h/a',
  'http://h:80?x',
  'https://h/',
  'h:443',
  '[::1]:443',
  '//h/x',
  '/a#b',
  '/%00?%',
  '/?',
];
const VERSIONS = [
  'HTTP/1.1',
  'HTTP/1.1',
  'HTTP/1.1',
  'HTTP/1.1',
  'HTTP/1.0',
  'HTTP/2.0',
  'HTTP/1.2',
];
const STATUS = [
  '200 OK',
  '200',
  '404 ',
  '401 Unauthorized',
  '204 No Content',
  '304 Not Modified',
  '100 Continue',
  '103 x',
  '101 x',
  '600 z',
  '99 x',
  '301 M\u00e9',
];
const LINES = [
  'Connection: close',
  'Connection: keep-alive',
  'connection: Upgrade',
  'Connection: x-a, close',
  'Connection: te,,host',
  'Upgrade: websocket',
  'Upgrade: h2c',
  'X-A: b',
  'x-a:',
  'X-B:  \t c d \t',
  'Keep-Alive: timeout=5',
  'Proxy-Connection: keep-alive',
  'TE: trailers',
  'Trailer: X-T',
  'Expect: 100-continue',
  'Authorization: NTLM TlRMTVNTUAAB',
  'Accept: */*',
  'Via: 1.1 x',
  'X-Forwarded-For: 1.1.1.1',
  'X_Forwarded_For: 2',
  'X-Remote-User: u',
  'Set-Cookie: a=b',
  'WWW-Authenticate: NTLM',
  'Date: x',
  'Content-Type: a/b',
  'Cookie: a=b; c=d',
  'X-Long: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa',
];
const FRAMING = [
  'Content-Length: 5',
  'Content-Length: 0',
  'Content-Length: 005',
  'Content-Length: 5 ',
  'Content-Length:5',
  'Content-Length: +5',
  'Content-Length: 5, 5',
  'Transfer-Encoding: chunked',
  'transfer-encoding:chunked',
  'Transfer-Encoding: Chunked',
  'Transfer-Encoding: chunked\t',
  'Transfer-Encoding: gzip, chunked',
  'Transfer-Encoding : chunked',
];
const TRAILERS = [
  'X-T: 1',
  'X-T:',
  'Content-Length: 5',
  'Transfer-Encoding: chunked',
  'Host: h',
  'A b: c',
  'X: \t y',
];
const BYTES = [
  '\r',
  '\n',
  '\r\n',
  ' ',
  '\t',
  '\0',
  ':',
  ';',
  ',',
  '0',
  '1',
  'f',
  'a',
  '\x7f',
  '\u00ff',
  '\v',
  '\r\n ',
  'chunked',
  '\r\n\r\n',
  '-',
  '+',
  '/',
  '%',
  '#',
  '?',
];

/** A request with its body and perhaps bytes behind it, as latin1 text. */
export function makeRequest(random: Random): string {
  const empty = random.chance(5) ? '\r\n'.repeat(random.below(6)) : '';
  const method = random.chance(60) ? random.pick(['GET', 'POST', 'PUT']) : random.pick(METHODS);
  const target = random.chance(60) ? '/a?b' : random.pick(TARGETS);
  const start = `${empty}${method} ${target} ${random.pick(VERSIONS)}\r\n`;
  const host = random.chance(93)
    ? random.pick(['Host: h\r\n', 'host:a.b:80\r\n', 'Host: [::1]\r\n'])
    : '';
  return mutate(random, `${start}${host}${makeRest(random)}`);
}

/** A response, likewise. */
export function makeResponse(random: Random): string {
  const version = random.chance(80) ? 'HTTP/1.1' : random.pick(VERSIONS);
  return mutate(random, `${version} ${random.pick(STATUS)}\r\n${makeRest(random)}`);
}

function makeRest(random: Random): string {
  const lines: string[] = [];
  for (let count = random.below(5); count > 0; count -= 1) lines.push(random.pick(LINES));
  let body = '';
  const framing = random.below(10);
  if (framing < 3) {
    lines.push('Content-Length: 5');
    body = 'hello';
  } else if (framing < 7) {
    lines.push('Transfer-Encoding: chunked');
    body = makeChunks(random);
  } else if (framing < 8) {
    lines.push(random.pick(FRAMING));
    body = random.chance(50) ? 'hello' : makeChunks(random);
  }
  if (random.chance(6)) lines.push(random.pick(FRAMING));
  shuffle(random, lines);
  const head = lines.map((line) => `${line}\r\n`).join('');
  const behind = random.chance(10)
    ? random.pick(['x', '\r\n', 'GET / HTTP/1.1\r\nHost: h\r\n\r\n', '0\r\n\r\n'])
    : '';
  return `${head}\r\n${body}${behind}`;
}

function makeChunks(random: Random): string {
  let text = '';
  for (let count = random.below(4); count > 0; count -= 1) {
    const data = 'abcdefghijklmnopqrstuvwxyz\r\n0123'.slice(0, 1 + random.below(31));
    const size = random.chance(20)
      ? data.length.toString(16).toUpperCase().padStart(random.below(13), '0')
      : data.length.toString(16);
    text += `${size}${makeExtension(random)}\r\n${data}\r\n`;
  }
  const trailers = random.chance(15)
    ? `${random.pick(TRAILERS)}\r\n`.repeat(1 + random.below(2))
    : '';
  return `${text}0${makeExtension(random)}\r\n${trailers}\r\n`;
}

function makeExtension(random: Random): string {
  return random.chance(10)
    ? random.pick([';a', ';a=b', ';a="b c"', '; a = b', ';', ' ', ';a;b', ';a="\\""'])
    : '';
}

function shuffle(random: Random, list: string[]): void {
  for (let i = list.length - 1; i > 0; i -= 1) {
    const j = random.below(i + 1);
    [list[i], list[j]] = [list[j] ?? '', list[i] ?? ''];
  }
}

/** Nothing in half of the cases; else up to three edits, each at any byte or at a line's end. */
function mutate(random: Random, text: string): string {
  let result = text;
  if (random.chance(50)) return result;
  for (let count = 1 + random.below(3); count > 0; count -= 1) result = edit(random, result);
  return result;
}

function edit(random: Random, text: string): string {
  let at = random.below(text.length + 1);
  if (random.chance(40)) at = Math.max(0, text.indexOf('\r\n', at));
  const before = text.slice(0, at);
  switch (random.below(6)) {
    case 0:
      return before + random.pick(BYTES) + text.slice(at);
    case 1:
      return before + text.slice(at + 1 + random.below(3));
    case 2:
      return before + random.pick(BYTES) + text.slice(at + 1);
    case 3:
      return before + String.fromCharCode(random.below(256)) + text.slice(at + 1);
    case 4:
      return `${before}\r\n${random.pick(random.chance(50) ? LINES : FRAMING)}${text.slice(at)}`;
    default:
      return before;
  }
}
