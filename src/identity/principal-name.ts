/**
 * Names of Kerberos principals as text, in the form that MIT Kerberos prints them (RFC 4120 6.2,
 * RFC 1964 2.1.1). How the parts lie in a file is known to the readers of those files.
 */

/** `first/second@REALM`; a slash, an at sign or a backslash inside a part is escaped. */
export function formatPrincipalName(components: readonly string[], realm: string): string {
  return `${components.map(escape).join('/')}@${escape(realm)}`;
}

/** The part after the last at sign that is not escaped; undefined where there is none. */
export function realmOf(name: string): string | undefined {
  return /(?<!\\)@([^@]+)$/.exec(name)?.[1];
}

function escape(part: string): string {
  return part.replaceAll(/[\\/@]/g, '\\$&');
}
