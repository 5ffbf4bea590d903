/**
 * What the demo puts on disk: a configuration and one file per password, in a folder that only this
 * user can read and that is removed at the end. The passwords are new in every run.
 */

import { randomBytes } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DEMO_DOMAIN } from './origin.ts';

/** The principals of the demo; each has a route of the same name. */
export const DEMO_PRINCIPALS = ['alice', 'bob'] as const;

export type DemoPrincipal = (typeof DEMO_PRINCIPALS)[number];

/** Name of the upstream in configuration and metrics. */
export const DEMO_UPSTREAM = 'origin';

/** Passwords by principal. */
export type DemoPasswords = Readonly<Record<DemoPrincipal, string>>;

/** The folder of one run; whoever made it removes it. */
export interface DemoFiles {
  readonly configFile: string;
  /** Removes folder and secrets. */
  remove(): Promise<void>;
}

/** New passwords. */
export function randomPasswords(): DemoPasswords {
  const password = (): string => randomBytes(18).toString('base64url');
  return { alice: password(), bob: password() };
}

/** The user that the origin knows a principal as: `DEMO\alice`. */
export function demoUser(principal: DemoPrincipal): string {
  return `${DEMO_DOMAIN}\\${principal}`;
}

/** Writes secrets and configuration for an origin on `originPort`. */
export async function writeDemoFiles(
  originPort: number,
  passwords: DemoPasswords,
): Promise<DemoFiles> {
  // mkdtemp makes the folder with mode 0700.
  const folder = await mkdtemp(join(tmpdir(), 'sidekerb-demo-'));
  const remove = (): Promise<void> => rm(folder, { recursive: true, force: true });
  const configFile = join(folder, 'sidekerb.yaml');
  try {
    for (const principal of DEMO_PRINCIPALS) {
      await writeFile(join(folder, principal), passwords[principal], { mode: 0o600 });
    }
    await writeFile(configFile, demoConfig(originPort, folder), { mode: 0o600 });
  } catch (error) {
    await remove();
    throw error;
  }
  return { configFile, remove };
}

/** The YAML text; port 0 lets the system choose. */
export function demoConfig(originPort: number, secretsFolder: string): string {
  const quoted = (text: string): string => JSON.stringify(text);
  const principals = DEMO_PRINCIPALS.map(
    (name) =>
      `  ${name}: { username: ${quoted(demoUser(name))}, password: { file: ${quoted(join(secretsFolder, name))} } }`,
  );
  const routes = DEMO_PRINCIPALS.map(
    (name) =>
      `      - { path: /${name}/, upstream: ${DEMO_UPSTREAM}, principal: ${name}, stripPrefix: true }`,
  );
  return `version: 1
log: { level: warn, access: false }
admin: { listen: '127.0.0.1:0' }
principals:
${principals.join('\n')}
upstreams:
  ${DEMO_UPSTREAM}:
    url: http://127.0.0.1:${originPort}
    auth: { schemes: [ntlm] }
listeners:
  - name: demo
    listen: '127.0.0.1:0'
    mode: reverse
    routes:
${routes.join('\n')}
`;
}
