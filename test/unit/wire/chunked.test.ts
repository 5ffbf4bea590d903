/** How the body scanner hands on bytes; what it refuses is in the tables of hostile messages. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { BODY_FAULT, ChunkedScanner, NEED_MORE } from '../../../src/wire/chunked.ts';
import { latin1 } from './support.ts';

class Runs {
  readonly texts: string[] = [];
  put(buffer: Buffer, start: number, end: number): void {
    this.texts.push(buffer.toString('latin1', start, end));
  }
}

function scan(text: string, verbatim: boolean): { runs: string[]; end: number; done: boolean } {
  const scanner = new ChunkedScanner();
  const runs = new Runs();
  const bytes = latin1(text);
  const end = scanner.scan(bytes, 0, bytes.length, runs, verbatim);
  return { runs: runs.texts, end, done: scanner.done };
}

const plain = '3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n';

test('a body without extensions and trailers is handed on verbatim in one run', () => {
  assert.deepEqual(scan(`${plain}next`, true), { runs: [plain], end: plain.length, done: true });
});

test('de-chunking hands on one run per chunk', () => {
  assert.deepEqual(scan(plain, false), { runs: ['abc', 'de'], end: plain.length, done: true });
});

test('what is cut out divides the runs', () => {
  const text = '3;x=y\r\nabc\r\n0\r\nX: y\r\n\r\n';
  assert.deepEqual(scan(text, true).runs, ['3', '\r\nabc\r\n0\r\n', '\r\n']);
  assert.deepEqual(scan('0\r\nX: y\r\n\r\n', true).runs, ['0\r\n', '\r\n']);
  assert.deepEqual(scan('0;x\r\n\r\n', true).runs, ['0', '\r\n\r\n']);
});

test('a piece of a chunk is handed on without waiting for the rest', () => {
  assert.deepEqual(scan('5\r\nab', false), { runs: ['ab'], end: NEED_MORE, done: false });
  assert.deepEqual(scan('5\r\nab', true), { runs: ['5\r\nab'], end: NEED_MORE, done: false });
});

test('an empty body is its framing only', () => {
  assert.deepEqual(scan('0\r\n\r\n', true), { runs: ['0\r\n\r\n'], end: 5, done: true });
  assert.deepEqual(scan('0\r\n\r\n', false), { runs: [], end: 5, done: true });
});

test('a scanner that is done takes nothing more until it is reset', () => {
  const scanner = new ChunkedScanner();
  const runs = new Runs();
  const bytes = latin1('0\r\n\r\n1\r\nx\r\n0\r\n\r\n');
  assert.equal(scanner.scan(bytes, 0, bytes.length, runs, false), 5);
  assert.equal(scanner.scan(bytes, 5, bytes.length, runs, false), 5);
  scanner.reset();
  assert.equal(scanner.done, false);
  assert.equal(scanner.scan(bytes, 5, bytes.length, runs, false), bytes.length);
  assert.deepEqual(runs.texts, ['x']);
});

test('the bounds of one body do not count against the next', () => {
  const scanner = new ChunkedScanner();
  const body = latin1(
    `${`1;${'a'.repeat(1000)}\r\nx\r\n`.repeat(16)}0\r\nX: ${'y'.repeat(8000)}\r\n\r\n`,
  );
  for (let i = 0; i < 3; i += 1) {
    assert.equal(scanner.scan(body, 0, body.length, new Runs(), true), body.length);
    scanner.reset();
  }
});

test('nothing of an abandoned body is left after a reset', () => {
  for (const start of ['000000000', '5\r\nab', '5;ext', '0\r\nContent-', '0\r\n\r']) {
    const scanner = new ChunkedScanner();
    const runs = new Runs();
    const abandoned = latin1(start);
    assert.equal(scanner.scan(abandoned, 0, abandoned.length, runs, false), NEED_MORE);
    scanner.reset();
    runs.texts.length = 0;
    const body = latin1('000000000001\r\nx\r\n0\r\nLength: 1\r\n\r\n');
    assert.equal(scanner.scan(body, 0, body.length, runs, false), body.length, start);
    assert.deepEqual(runs.texts, ['x']);
  }
});

test('a chunk of more than 4 GiB is counted exactly', () => {
  const scanner = new ChunkedScanner();
  const runs = new Runs();
  const size = latin1('100000001\r\n');
  assert.equal(scanner.scan(size, 0, size.length, runs, false), NEED_MORE);
  const part = Buffer.alloc(1 << 24, 0x61);
  const sink = { put: (): void => undefined };
  for (let i = 0; i < 256; i += 1) {
    assert.equal(scanner.scan(part, 0, part.length, sink, false), NEED_MORE);
  }
  const rest = latin1('z\r\n0\r\n\r\n');
  assert.equal(scanner.scan(rest, 0, rest.length, runs, false), rest.length);
  assert.deepEqual(runs.texts, ['z']);
});

test('a trailer with a name of any length is cut out', () => {
  const text = `0\r\n${'content-length'.repeat(9)}: 1\r\n\r\n`;
  assert.deepEqual(scan(text, true), { runs: ['0\r\n', '\r\n'], end: text.length, done: true });
});

test('a forbidden trailer is found in any spelling and however it is cut', () => {
  for (const name of [
    'Content-Length',
    'TRANSFER-ENCODING',
    'content_length',
    'Set-Cookie',
    'te',
  ]) {
    const bytes = latin1(`0\r\nX-${name}: a\r\n${name}: b\r\n\r\n`);
    const scanner = new ChunkedScanner();
    let result = NEED_MORE;
    for (let i = 0; i < bytes.length && result === NEED_MORE; i += 1) {
      result = scanner.scan(bytes, i, i + 1, new Runs(), true);
    }
    assert.equal(result, BODY_FAULT, name);
  }
});

test('trailers that are asked for go along with a body that is handed on verbatim', () => {
  const text = '3;x=y\r\nabc\r\n0\r\nX: y\r\nZ: \r\n\r\n';
  for (let cut = 0; cut <= text.length; cut += 1) {
    const scanner = new ChunkedScanner();
    scanner.keepsTrailers = true;
    const runs = new Runs();
    const bytes = latin1(`${text}next`);
    const first = scanner.scan(bytes, 0, cut, runs, true);
    const end = first === NEED_MORE ? scanner.scan(bytes, cut, bytes.length, runs, true) : first;
    assert.equal(end, text.length);
    assert.equal(runs.texts.join(''), text.replace(';x=y', ''));
  }
});

test('trailers that are asked for are none of a body without its chunks, and none that are forbidden', () => {
  for (const [text, verbatim, expected] of [
    ['3\r\nabc\r\n0\r\nX: y\r\n\r\n', false, 'abc'],
    ['3\r\nabc\r\n0\r\nContent-Length: 1\r\n\r\n', true, BODY_FAULT],
    ['3\r\nabc\r\n0\r\nX: y\r\n folded\r\n\r\n', true, BODY_FAULT],
  ] as const) {
    const scanner = new ChunkedScanner();
    scanner.keepsTrailers = true;
    const runs = new Runs();
    const bytes = latin1(text);
    const end = scanner.scan(bytes, 0, bytes.length, runs, verbatim);
    assert.equal(expected === BODY_FAULT ? end : runs.texts.join(''), expected);
  }
});
