/**
 * The servers of the lab by name, and what each needs from the machine. How one is started is decided
 * by its file under components/, order and sharing by lab.ts.
 */
import { KDC_NEEDS } from './kdc.ts';
import { isPresent } from './requires.ts';

/** Where Debian puts Apache's modules. */
export const APACHE_MODULES = '/usr/lib/apache2/modules';
/** Debian's own Python: another one in PATH does not have the python3-* packages. */
export const PYTHON = '/usr/bin/python3';
/** squid's judge of Kerberos tokens. */
export const SQUID_KERBEROS = '/usr/lib/squid/negotiate_kerberos_auth';

/** The accounts of the lab; the domain is LAB. */
export const LAB_USERS = { alice: 'alicepw', bob: 'bobpw' } as const;

export const COMPONENTS = [
  'kdc',
  'winbind',
  'apache',
  'squid',
  'front-end',
  'channel-binding',
  'lighttpd',
  'cntlm',
] as const;
export type Component = (typeof COMPONENTS)[number];

const NEEDS = {
  kdc: KDC_NEEDS,
  winbind: [
    'setpriv',
    'winbindd',
    'ntlm_auth',
    'pdbedit',
    '/usr/lib/*/libnss_wrapper.so',
    '/usr/lib/*/libuid_wrapper.so',
  ],
  apache: [
    'setpriv',
    'apache2',
    'openssl',
    `${APACHE_MODULES}/mod_auth_gssapi.so`,
    '/etc/gss/mech.d',
  ],
  squid: ['setpriv', 'squid', 'openssl', SQUID_KERBEROS],
  'front-end': ['setpriv'],
  'channel-binding': ['setpriv', 'openssl', PYTHON, '/usr/lib/python3/dist-packages/gssapi'],
  lighttpd: ['setpriv', 'lighttpd', '/usr/lib/lighttpd/mod_authn_gssapi.so'],
  cntlm: ['setpriv', 'cntlm'],
} as const satisfies Record<Component, readonly string[]>;

/** The programs and files of `component` that this machine lacks. */
export function missingFor(component: Component): string[] {
  return NEEDS[component].filter((need) => !isPresent(need));
}
