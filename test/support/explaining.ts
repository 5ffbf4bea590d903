/** `explain` inside the test process, with a configuration text as any file. */
import { ConfigSource } from '../../src/config/config-source.ts';
import { formatFaults } from '../../src/config/faults.ts';
import { systemIo } from '../../src/config/secrets.ts';
import { explain } from '../../src/explain/explain.ts';
import type { LoginStep, Report, RequestStep } from '../../src/explain/report.ts';
import { formatReport } from '../../src/explain/text.ts';

export interface Asked {
  /** YAML text. */
  readonly config: string;
  /** What `{ env: NAME }` in it reads. */
  readonly secrets?: Readonly<Record<string, string>>;
  readonly url: string;
  readonly as?: string;
  readonly principal?: string;
}

/** A report in both of its forms. */
export interface Explained {
  readonly report: Report;
  readonly text: string;
  readonly requests: readonly RequestStep[];
  readonly logins: readonly LoginStep[];
}

const FILE = '/test/explain.yaml';

/** Throws with all faults when the configuration has any, and when a secret or a token is in a report. */
export async function explained(asked: Asked): Promise<Explained> {
  const secrets = asked.secrets ?? {};
  const source = new ConfigSource(FILE, {
    ...systemIo,
    env: (name) => secrets[name],
    readFile: (path) => (path === FILE ? Buffer.from(asked.config) : systemIo.readFile(path)),
  });
  const { config, faults } = await source.load();
  if (config === undefined) throw new Error(`configuration:\n${formatFaults(faults)}`);
  const { as, principal } = asked;
  const question = { url: new URL(asked.url), as, principal };
  const report = await explain(config, question, { version: '0.0.0-test' });
  const text = formatReport(report);
  assertNoSecret(`${text}${JSON.stringify(report)}`, Object.values(secrets));
  const { steps } = report;
  return {
    report,
    text,
    requests: steps.filter((step) => step.kind === 'request'),
    logins: steps.filter((step) => step.kind === 'login'),
  };
}

/** Tokens of every scheme start like one of these in base64: NTLMSSP, a GSS-API header, NegTokenResp. */
const TOKEN = /\b(?:TlRMTVNT|YI[A-I]|oY|oR)[A-Za-z0-9+/]{20}/;

function assertNoSecret(text: string, secrets: readonly string[]): void {
  const told = secrets.filter((secret) => text.includes(secret));
  if (told.length > 0) throw new Error('a password is in the report');
  if (TOKEN.test(text)) throw new Error('a token is in the report');
}
