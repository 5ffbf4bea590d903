/** What processes of Kerberos see of the outside: nothing is inherited from the daemon. */
import { join } from 'node:path';

/** What the machine's configuration cannot change. */
const NAMES = join(import.meta.dirname, 'names.conf');

/** Where the library looks when nothing names another one. */
const SYSTEM_CONFIG = '/etc/krb5.conf';

/** Where Debian, Red Hat and SUSE keep kinit. */
const SEARCH_PATH = '/usr/local/bin:/usr/bin:/bin:/usr/lib/mit/bin';

/** Of every such process; `krb5Config`, one path or several with colons; undefined: the system's. */
export function surroundings(krb5Config: string | undefined): Readonly<Record<string, string>> {
  return {
    LC_ALL: 'C',
    KRB5_CONFIG: `${NAMES}:${krb5Config ?? SYSTEM_CONFIG}`,
    // Other mechanisms of the machine would change what SPNEGO offers, and the texts of errors.
    GSS_MECH_CONFIG: '/dev/null',
  };
}

/** The same for kinit, which is looked for in the usual places. */
export function kinitSurroundings(
  krb5Config: string | undefined,
): Readonly<Record<string, string>> {
  return { ...surroundings(krb5Config), PATH: SEARCH_PATH };
}
