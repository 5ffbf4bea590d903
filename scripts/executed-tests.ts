/**
 * A test reporter that fails a run in which no test was executed.
 *
 * `node --test` ends with 0 when a pattern matches no file or when every test was skipped; a chain
 * of checks would then pass without having checked anything. Printing results is left to `spec`.
 */
import type { TestEvent } from 'node:test/reporters';

/** Yields one line and sets the exit code to 1 when the summary of the whole run counts nothing. */
async function* executedTests(events: AsyncIterable<TestEvent>): AsyncGenerator<string> {
  for await (const event of events) {
    if (event.type !== 'test:summary' || event.data.file !== undefined) continue;
    const { tests, skipped, todo } = event.data.counts;
    if (tests - skipped - todo > 0) continue;
    process.exitCode = 1;
    yield 'no test was executed: the run fails\n';
  }
}

// oxlint-disable-next-line import/no-default-export -- node --test-reporter loads the default export
export default executedTests;
