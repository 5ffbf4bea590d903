/**
 * NTLM clients of other people, run as processes: curl and Python's requests-ntlm. They tell that
 * an acceptor speaks the protocol and not only to its own kind.
 */

import { execFile, spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { temporaryFolder } from './temporary-folder.ts';
import { DEADLINE_MS } from './waiting.ts';

const run = promisify(execFile);

export interface ExternalAnswer {
  /** Status of the last answer. */
  readonly status: number;
  readonly body: string;
}

export interface ExternalRequest {
  readonly url: string;
  /** `DOMAIN\user`. */
  readonly user: string;
  readonly password: string;
  /** How often the URL is asked on one connection; the last answer counts. Default 1. */
  readonly times?: number;
  readonly method?: string;
  readonly body?: string;
  /** File of the authority to trust. */
  readonly caFile?: string;
}

/** OpenSSL 3 keeps MD4 in its legacy provider, and Python's NTLM needs it. */
const LEGACY_OPENSSL = `openssl_conf = init
[init]
providers = providers
[providers]
default = active
legacy = active
[active]
activate = 1
`;

/** Whether a client can be run; a skip reason when not. Under CI=true absence is a failure. */
export interface Availability {
  readonly skip: string | false;
}

const PYTHONS = ['python3', '/usr/bin/python3'] as const;

const SCRIPT = `
import json, sys, requests, requests_ntlm
wish = json.loads(sys.argv[1])
session = requests.Session()
session.trust_env = False
session.auth = requests_ntlm.HttpNtlmAuth(wish["user"], wish["password"])
for _ in range(wish["times"]):
    answer = session.request(wish["method"], wish["url"], data=wish["body"], verify=wish["ca"], timeout=10)
sys.stdout.write(json.dumps({"status": answer.status_code, "body": answer.text}))
`;

/** curl with NTLM built in. */
export function curlAvailability(): Availability {
  const version = spawnSync('curl', ['--version'], { encoding: 'utf8' });
  const able = version.status === 0 && /\bNTLM\b/.test(version.stdout);
  return availability(able, 'curl with NTLM is absent');
}

/** requests-ntlm of any of the usual Pythons. */
export function requestsNtlmAvailability(): Availability {
  return availability(findPython() !== undefined, 'python3 with requests-ntlm is absent');
}

/** `curl --ntlm`. */
export async function curlNtlm(request: ExternalRequest): Promise<ExternalAnswer> {
  const urls = Array.from({ length: request.times ?? 1 }, () => request.url);
  const { stdout } = await run(
    'curl',
    [
      '--disable',
      '--silent',
      '--show-error',
      '--noproxy',
      '*',
      '--max-time',
      '10',
      '--ntlm',
      '--user',
      `${request.user}:${request.password}`,
      '--write-out',
      '\n%{http_code}\n',
      ...(request.method === 'HEAD' ? ['--head'] : ['--request', request.method ?? 'GET']),
      ...(request.body === undefined ? [] : ['--data-binary', request.body]),
      ...(request.caFile === undefined ? [] : ['--cacert', request.caFile]),
      ...urls,
    ],
    { timeout: 3 * DEADLINE_MS },
  );
  const lines = stdout.trimEnd().split('\n');
  return { status: Number(lines.at(-1)), body: lines.at(-2) ?? '' };
}

/** A requests session with HttpNtlmAuth. */
export async function requestsNtlm(request: ExternalRequest): Promise<ExternalAnswer> {
  const wish = {
    url: request.url,
    user: request.user,
    password: request.password,
    times: request.times ?? 1,
    method: request.method ?? 'GET',
    body: request.body ?? null,
    ca: request.caFile ?? true,
  };
  const python = findPython() ?? PYTHONS[0];
  const { stdout } = await run(python, ['-c', SCRIPT, JSON.stringify(wish)], {
    env: pythonEnvironment(),
    timeout: 6 * DEADLINE_MS,
  });
  return JSON.parse(stdout) as ExternalAnswer;
}

function availability(able: boolean, reason: string): Availability {
  return { skip: able || process.env['CI'] === 'true' ? false : reason };
}

function findPython(): string | undefined {
  const probe = 'import hashlib, requests_ntlm; hashlib.new("md4")';
  const env = pythonEnvironment();
  return PYTHONS.find((python) => spawnSync(python, ['-c', probe], { env }).status === 0);
}

function pythonEnvironment(): NodeJS.ProcessEnv {
  const file = join(temporaryFolder(), 'openssl-legacy.cnf');
  writeFileSync(file, LEGACY_OPENSSL);
  return { ...process.env, OPENSSL_CONF: file };
}
