/**
 * Which realms the machine's Kerberos configuration names: callers who bring a password may log in to
 * these and to no others, so that no caller chooses which KDC is asked. Only names are read; what they
 * mean is the library's business. Format: krb5.conf(5) of MIT Kerberos.
 */

import { join } from 'node:path';

/** Names are in the case given. */
export interface KerberosRealms {
  /** `default_realm`; undefined: the file names none. */
  readonly default: string | undefined;
  /** All realms that are named, the default among them. */
  readonly known: readonly string[];
}

/** No Kerberos for callers. */
export const NO_REALMS: KerberosRealms = Object.freeze({
  default: undefined,
  known: Object.freeze([]),
});

/** What reading needs of the machine; undefined: there is no such file or folder. */
export interface RealmFiles {
  text(path: string): string | undefined;
  names(folder: string): readonly string[] | undefined;
}

/** Where the system's configuration is when nothing names another one. */
export const SYSTEM_CONFIG = '/etc/krb5.conf';

/** Included files may include others. */
const MAX_FILES = 100;

/** Reads `files`, a path or several with colons between, as KRB5_CONFIG has them. */
export function readRealms(files: string, io: RealmFiles): KerberosRealms {
  const found = new Found();
  const left = files.split(':').filter((path) => path !== '');
  for (let count = 0; left.length > 0 && count < MAX_FILES; count += 1) {
    const path = left.shift() ?? '';
    const text = io.text(path);
    if (text !== undefined) left.unshift(...found.read(text, io));
  }
  return { default: found.default, known: [...found.known] };
}

class Found {
  default: string | undefined;
  readonly known = new Set<string>();

  /** Takes the names of one file; gives the files that it includes. */
  read(text: string, io: RealmFiles): string[] {
    const included: string[] = [];
    let section = '';
    let depth = 0;
    for (const line of text.split(/\r?\n/).map((each) => each.trim())) {
      const directive = /^(include|includedir)\s+(\S.*)$/.exec(line);
      if (directive !== null) {
        included.push(...filesOf(directive[1] === 'includedir', directive[2] ?? '', io));
      } else if (line.startsWith('[')) {
        section = /^\[([^\]]*)\]/.exec(line)?.[1] ?? '';
        depth = 0;
      } else if (line !== '' && !/^[#;]/.test(line)) {
        if (depth === 0) this.#relation(section, line);
        depth = Math.max(0, depth + Number(line.endsWith('{')) - Number(line.startsWith('}')));
      }
    }
    return included;
  }

  #relation(section: string, line: string): void {
    const [, tag = '', value = ''] = /^([^=\s]+)\s*=\s*(.*?)\s*$/.exec(line) ?? [];
    if (section === 'libdefaults' && tag === 'default_realm') {
      // The first one counts.
      this.default ??= value;
      this.known.add(value);
    }
    if (section === 'realms' && value.startsWith('{')) this.known.add(tag);
    if (section === 'domain_realm' && value !== '') this.known.add(value);
  }
}

/** The library takes names of letters, digits, dashes and underscores, and those that end in .conf. */
function filesOf(isFolder: boolean, path: string, io: RealmFiles): string[] {
  if (!isFolder) return [path];
  const names = io.names(path) ?? [];
  return names
    .filter((name) => /^[A-Za-z0-9_-]+$|^[^.].*\.conf$/.test(name))
    .toSorted()
    .map((name) => join(path, name));
}
