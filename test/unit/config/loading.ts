/** Loads configurations from text on a machine that exists in the test only. */
import { generateKeyPairSync } from 'node:crypto';
import { formatFaults } from '../../../src/config/faults.ts';
import type { Config } from '../../../src/config/config.ts';
import { loadText } from '../../../src/config/load.ts';
import type { LoadOptions, LoadResult } from '../../../src/config/load.ts';
import type { ConfigIo } from '../../../src/config/secrets.ts';
import { testKeytab } from '../../support/kerberos-files.ts';

export interface Machine {
  readonly files?: Readonly<Record<string, string | Uint8Array>>;
  readonly env?: Readonly<Record<string, string>>;
}

const { publicKey } = generateKeyPairSync('ed25519');

/** What is no password by its form. */
const USUAL_FILES: Readonly<Record<string, string | Uint8Array>> = {
  '/jwks.json': JSON.stringify({ keys: [publicKey.export({ format: 'jwk' })] }),
  '/htpasswd': 'alice:$apr1$saltsalt$LrttParrLPdxvgutaSXWJ0\n',
  '/http.keytab': testKeytab({ principal: 'HTTP/web@CORP' }),
};

/** Every file and variable that is not named holds a password, except for those with a form of their own. */
export function machine({ files = {}, env = {} }: Machine = {}): ConfigIo {
  const all: Machine['files'] = { ...USUAL_FILES, ...files };
  return {
    readFile: (path) => Buffer.from(Object.hasOwn(all, path) ? (all[path] ?? '') : 'secret\n'),
    env: (name) => (Object.hasOwn(env, name) ? env[name] : 'secret'),
  };
}

/** A machine on which nothing exists but what is named. */
export function bareMachine({ files = {}, env = {} }: Machine = {}): ConfigIo {
  return {
    readFile: (path) => {
      const content = Object.hasOwn(files, path) ? files[path] : undefined;
      if (content === undefined) throw Object.assign(new Error('no such file'), { code: 'ENOENT' });
      return Buffer.from(content);
    },
    env: (name) => (Object.hasOwn(env, name) ? env[name] : undefined),
  };
}

/** The configuration; throws the faults where there are any. */
export function loaded(text: string, io: ConfigIo = machine()): Config {
  const { config, faults } = loadText('/etc/sidekerb/test.yaml', text, io);
  if (config === undefined) throw new Error(formatFaults(faults));
  return config;
}

/** Faults as `LINE:COL: PATH: message`, the file left out. */
export function faultLines(
  text: string,
  io: ConfigIo = machine(),
  options?: LoadOptions,
): string[] {
  return lines(loadText('f', text, io, options));
}

/** The same as if every part were built. */
export function faultsWhenBuilt(text: string): string[] {
  const io = machine();
  return lines(loadText('f', text, io, { findNotBuilt: () => [] })).filter(
    (line) => !/holds no PEM|is no NT hash|is no keytab/.test(line),
  );
}

function lines({ faults }: LoadResult): string[] {
  return formatFaults(faults)
    .split('\n')
    .filter((line) => line.startsWith('f:'))
    .map((line) => line.slice(2));
}
