/** python3-requests-ntlm as an independent client of the lab (programs/requests-ntlm-client.py). */
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { PYTHON } from './components.ts';

const run = promisify(execFile);

/** What the client needs from the machine. */
export const REQUESTS_NTLM = '/usr/lib/python3/dist-packages/requests_ntlm';

export interface RequestsNtlmAnswer {
  readonly status: number;
  /** Statuses of the answers before the last one. */
  readonly earlier: readonly number[];
  readonly user: string | null;
  readonly port: string | null;
  readonly body: string;
}

/** Runs the client; the arguments after the address are those that the program names. */
export async function requestsNtlm(
  url: string,
  ...args: readonly string[]
): Promise<RequestsNtlmAnswer[]> {
  const client = join(import.meta.dirname, 'programs', 'requests-ntlm-client.py');
  const { stdout } = await run(PYTHON, [client, url, ...args], { env: { PATH: '/usr/bin:/bin' } });
  return stdout
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as RequestsNtlmAnswer);
}
