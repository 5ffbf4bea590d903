import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { LOG_LEVELS, createPinoLog } from '../../../src/log/pino-log.ts';

describe('the log', () => {
  test('writes one JSON line per call, from its level on', () => {
    for (const [at, level] of LOG_LEVELS.entries()) {
      const lines: string[] = [];
      const log = createPinoLog(level, { write: (line) => lines.push(line) });
      for (const called of LOG_LEVELS) log[called]({ n: 1, gone: undefined }, `at ${called}`);
      const seen = lines.map((line) => JSON.parse(line));
      assert.deepEqual(
        seen.map((line) => [line.level, line.msg, line.n]),
        LOG_LEVELS.slice(at).map((called) => [called, `at ${called}`, 1]),
      );
      assert.ok(lines.every((line) => line.endsWith('}\n')));
      assert.deepEqual(Object.keys(seen[0]), ['level', 'time', 'n', 'msg']);
    }
  });

  test('G11 text with line ends and escape sequences stays inside its line', () => {
    const lines: string[] = [];
    const log = createPinoLog('info', { write: (line) => lines.push(line) });
    log.info({ name: 'a\r\nb\u001b[31m' }, 'c\nd');
    assert.equal(lines.length, 1);
    assert.doesNotMatch(String(lines[0]).slice(0, -1), /\p{Cc}/u);
    assert.equal(JSON.parse(String(lines[0])).name, 'a\r\nb\u001b[31m');
  });
});
