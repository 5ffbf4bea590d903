/**
 * curl as an independent client of the lab: what its options make of some URLs, on one connection
 * where the servers allow it. Tickets, where it needs any, are its user's own.
 */
import { execFile } from 'node:child_process';
import { mkdtempSync } from 'node:fs';
import { join } from 'node:path';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { kdcFile } from './kdc.ts';
import type { LabFacts } from './lab.ts';

/** Of one URL: what the origin and the parent said about who asked, on which socket of theirs. */
export interface CurlAnswer {
  /** 0 where there was none, as after a refused tunnel. */
  readonly status: number;
  /** Of the tunnel; 0 without one. */
  readonly connectStatus: number;
  /** Connections that this URL opened. */
  readonly connections: number;
  readonly user: string;
  readonly port: string;
  readonly parentUser: string;
  readonly parentPort: string;
}

const FORMAT = [
  '%{http_code}',
  '%{http_connect}',
  '%{num_connects}',
  '%header{x-lab-user}',
  '%header{x-lab-port}',
  '%header{x-lab-parent-user}',
  '%header{x-lab-parent-port}',
].join('|');

/** Runs curl; a refused tunnel is an answer with status 0, anything else that curl fails on is thrown. */
export async function labCurl(
  urls: readonly string[],
  options: readonly string[],
  environment: Readonly<Record<string, string>> = {},
): Promise<CurlAnswer[]> {
  const common = ['-sS', '--max-time', '20', '--noproxy', '', '-o', '/dev/null'];
  const each = urls.flatMap((url, i) => [
    ...(i === 0 ? ['--disable'] : ['--next']),
    ...common,
    '-w',
    `${FORMAT}\\n`,
    ...options,
    url,
  ]);
  const output = await runCurl(each, environment);
  return output
    .trimEnd()
    .split('\n')
    .map((line) => {
      // An empty field comes with its carriage return.
      const fields = line.split('|').map((field) => field.trim());
      const [status, connectStatus, connections] = fields.map(Number);
      const [user = '', port = '', parentUser = '', parentPort = ''] = fields.slice(3);
      return {
        status: status ?? 0,
        connectStatus: connectStatus ?? 0,
        connections: connections ?? 0,
        user,
        port,
        parentUser,
        parentPort,
      };
    });
}

/** Of curl: what it received could not be used, here the refusal of a tunnel. */
const RECEIVE_FAILED = 56;

function runCurl(
  args: readonly string[],
  environment: Readonly<Record<string, string>>,
): Promise<string> {
  const env = { PATH: process.env['PATH'] ?? '', ...environment };
  return new Promise((resolve, reject) => {
    execFile('curl', args, { env }, (error, output) => {
      if (error === null || error.code === RECEIVE_FAILED) resolve(output);
      else reject(error);
    });
  });
}

/** The environment in which a program is `user` by Kerberos: the lab's keytab, a cache of its own. */
export function ticketsOf(lab: LabFacts, user: 'alice' | 'bob'): Record<string, string> {
  const kdc = join(lab.folder, 'kdc');
  return {
    KRB5_CONFIG: kdcFile.krb5Conf(kdc),
    KRB5_CLIENT_KTNAME: kdcFile.userKeytab(kdc, user),
    KRB5CCNAME: `FILE:${join(mkdtempSync(join(temporaryFolder(), 'tickets-')), 'cache')}`,
  };
}
