/** `sidekerb explain`: one request for real, and what became of each leg of it. */

import type { Config } from '../src/config/config.ts';
import { formatFaults } from '../src/config/faults.ts';
import { exitCodeOf } from './check.ts';
import type { Command } from './command.ts';
import { EXIT, parseCommandLine, UsageError } from './command.ts';
import { packageVersion } from './version.ts';

/** The request was answered with 400 or more, a login failed, or there was no answer. */
const EXIT_FAILED = 1;

export const explain: Command = {
  usage: ['sidekerb explain URL --config FILE [--principal NAME | --as LISTENER] [--json]'],
  help: `Makes a GET of the URL as the daemon would, and shows each leg: where it goes, what is offered, which
login is made as whom, and what was answered; when something fails, what it means and what to do. No
listener is opened. Logins are real: a wrong password counts at the directory. Tokens and passwords
are never shown. Ends with 0 when the answer is below 400 and every login was accepted, else with 1.

The way is that of the upstream whose origin the URL is at; a URL of no upstream is asked plainly.

  --config FILE      the configuration
  --principal NAME   log in to the origin as this principal, instead of the upstream's own
  --as LISTENER      take the way that a request of this listener takes: its own URL on a reverse
                     listener, any on a forward one
  --json             the report as JSON`,
  run: async (args, terminal) => {
    const options = {
      config: { type: 'string' },
      principal: { type: 'string' },
      as: { type: 'string' },
      json: { type: 'boolean' },
    } as const;
    const { values, positionals } = parseCommandLine(args, options, { min: 1, max: 1 });
    const { config: file, principal, as, json } = values;
    const url = urlOf(positionals[0] ?? '');
    if (file === undefined) throw new UsageError('--config FILE is missing');
    if (principal !== undefined && as !== undefined)
      throw new UsageError('--principal and --as do not go together: a listener decides who');
    const { ConfigSource } = await import('../src/config/config-source.ts');
    const { config, faults } = await new ConfigSource(file).load();
    if (config === undefined) {
      terminal.err(formatFaults(faults));
      return exitCodeOf(faults);
    }
    for (const warning of config.warnings) terminal.err(`${config.file}: ${warning}\n`);
    const report = await reportOf(config, { url, principal, as });
    const { formatReport } = await import('../src/explain/text.ts');
    terminal.out(
      json === true ? `${JSON.stringify(report, undefined, 2)}\n` : formatReport(report),
    );
    return report.ok ? EXIT.ok : EXIT_FAILED;
  },
};

async function reportOf(
  config: Config,
  question: {
    readonly url: URL;
    readonly principal: string | undefined;
    readonly as: string | undefined;
  },
) {
  const { explain: ask } = await import('../src/explain/explain.ts');
  const { QuestionError } = await import('../src/explain/way.ts');
  try {
    return await ask(config, question, { version: packageVersion() });
  } catch (error) {
    if (error instanceof QuestionError) throw new UsageError(error.message, { cause: error });
    throw error;
  }
}

function urlOf(text: string): URL {
  const url = URL.parse(text);
  if (url === null || !/^https?:$/.test(url.protocol))
    throw new UsageError('URL: wanted: http://HOST[:PORT]/PATH or https');
  if (url.username !== '' || url.password !== '')
    throw new UsageError('URL: no user name or password belongs here; a principal has them');
  return url;
}
