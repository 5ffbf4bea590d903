/**
 * The configuration of `sidekerb run --parent URL --user NAME`: a forward proxy for one person, without a
 * file. It is text like any other configuration and goes through the same loader; the password is a
 * reference that only the loader's own view of the environment knows, and lies nowhere else.
 */

import { resolve } from 'node:path';
import { isLoopback, splitHostPort } from '../src/config/addresses.ts';
import { ConfigSource } from '../src/config/config-source.ts';
import { systemIo } from '../src/config/secrets.ts';
import { parseTargetUrl } from '../src/config/urls.ts';
import { UsageError } from './command.ts';

export interface Laptop {
  /** `http://HOST[:PORT]`, or https. */
  readonly parent: string;
  /** `DOMAIN\user`, `user`, or `user@REALM`. */
  readonly user: string;
  /** `127.0.0.1:PORT` or another loopback address. */
  readonly listen: string;
  /** File of certificates to trust beside the system's. */
  readonly ca: string | undefined;
}

export const DEFAULT_LISTEN = '127.0.0.1:3128';

/** What stands for the file in faults. */
const FILE = '(command line)';
/** The name that the configuration has for the password. */
const PASSWORD = 'SIDEKERB_TYPED_PASSWORD';

/** This machine, and addresses that are private as they are written; names are the parent's to look up. */
const DIRECT = [
  'localhost',
  '.localhost',
  '127.0.0.0/8',
  '::1',
  '10.0.0.0/8',
  '172.16.0.0/12',
  '192.168.0.0/16',
  'fc00::/7',
];

/** Anything but link-local addresses: the metadata services of clouds are there. */
const ALLOW = ['!169.254.0.0/16:*', '![fe80::]/10:*', '*:*'];

/** Throws `UsageError` for what a person can only have mistyped. The loader judges the rest. */
export function checkLaptop({ parent, user, listen }: Laptop): void {
  const target = parseTargetUrl(parent);
  if ('fault' in target) throw new UsageError(`--parent: ${target.fault}`);
  if (target.basePath !== '')
    throw new UsageError('--parent: a proxy has no path; wanted: http://HOST[:PORT] or https');
  if (!/^(?:[^\\@]+\\)?[^\\@]+$|^[^\\@/]+@[^\\@/]+$/.test(user) || /\p{Cc}/u.test(user))
    throw new UsageError(String.raw`--user: wanted: DOMAIN\user, user, or user@REALM`);
  const [host] = splitHostPort(listen);
  if (host === undefined) throw new UsageError('--listen: wanted: HOST:PORT');
  if (host !== 'localhost' && !isLoopbackLiteral(host))
    throw new UsageError(
      '--listen: wanted: an address of this machine alone, as whoever reaches it acts as you; a configuration file can say more',
    );
}

/** Where the configuration comes from, as from a file. */
export function laptopSource(laptop: Laptop, password: string): ConfigSource {
  const text = Buffer.from(laptopText(laptop));
  return new ConfigSource(FILE, {
    ...systemIo,
    readFile: (path) => (resolve(path) === resolve(FILE) ? text : systemIo.readFile(path)),
    env: (name) => (name === PASSWORD ? password : systemIo.env(name)),
  });
}

/** JSON is YAML. */
function laptopText({ parent, user, listen, ca }: Laptop): string {
  const password = { env: PASSWORD };
  // A realm means Kerberos, and NTLM where that fails or is not offered. Without one NTLM comes first
  // by itself: a parent that knows Kerberos alone under Negotiate refuses NTLM inside of it.
  const hasRealm = user.includes('@');
  const kerberos = hasRealm ? { kerberos: user } : {};
  const schemes = hasRealm ? ['negotiate', 'ntlm'] : ['ntlm', 'negotiate'];
  const config = {
    version: 1,
    watch: false,
    principals: { user: { username: user, ...kerberos, password } },
    upstreams: {
      parent: {
        proxy: parent.replace(/\/+$/, ''),
        auth: { principal: 'user', schemes },
        ...(ca === undefined ? {} : { tls: { extraCa: ca } }),
      },
    },
    listeners: [
      {
        name: 'proxy',
        listen,
        mode: 'forward',
        via: ['parent'],
        direct: DIRECT,
        allow: ALLOW,
        private: true,
      },
    ],
  };
  return `${JSON.stringify(config, undefined, 2)}\n`;
}

function isLoopbackLiteral(host: string): boolean {
  try {
    return isLoopback(host);
  } catch {
    // A name.
    return false;
  }
}
