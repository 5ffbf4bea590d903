/** Which keys of a principal go together, and which schemes its parts can serve. */

import type { Scheme } from '../config.ts';
import type { PrincipalEntry } from '../contract.ts';
import type { Finding, KeyPath } from '../faults.ts';
import type { Check } from './context.ts';

/** What a principal can do: NTLM, Kerberos, and handing out the password itself. */
export interface Parts {
  readonly ntlm: boolean;
  readonly kerberos: boolean;
  readonly password: boolean;
}

export function partsOf(principal: PrincipalEntry): Parts {
  if (principal.from === 'client') return { ntlm: true, kerberos: true, password: true };
  const hasPassword = principal.password !== undefined;
  const hasUser = principal.username !== undefined;
  return {
    ntlm: hasUser && (hasPassword || principal.ntHash !== undefined),
    kerberos: principal.ambient === true || principal.kerberos !== undefined,
    password: hasUser && hasPassword,
  };
}

/** True where a part of the principal can serve the scheme; NTLM goes inside Negotiate too. */
export function canServe(parts: Parts, scheme: Scheme): boolean {
  if (scheme === 'negotiate') return parts.kerberos || parts.ntlm;
  return scheme === 'ntlm' ? parts.ntlm : parts.password;
}

export const checkPrincipals: Check = ({ contract }) => {
  return Object.entries(contract.principals).flatMap(([name, principal]) =>
    principalFindings(principal, ['principals', name]).map((finding): Finding => {
      return { ...finding, basis: KEYS.map((key) => ['principals', name, key]) };
    }),
  );
};

/** What is said of one of these keys may come from a fault of another. */
const KEYS = ['username', 'password', 'ntHash', 'kerberos', 'keytab', 'ccache', 'ambient', 'from'];

function principalFindings(principal: PrincipalEntry, path: KeyPath): Finding[] {
  const { username, kerberos, ambient, from, password, ntHash, keytab, ccache } = principal;
  const own = { username, kerberos, password, ntHash, keytab, ccache };
  if (ambient === true || from !== undefined) {
    const word = ambient === true ? 'ambient' : 'from';
    const beside = { ...own, ...(ambient === true ? { from } : {}) };
    return given(beside).map((key) => {
      return { path: [...path, key], at: 'key', message: `cannot stand beside ${word}` };
    });
  }
  if (username === undefined && kerberos === undefined) {
    return [{ path, message: 'wanted: username, kerberos, ambient: true or from: client' }];
  }
  return [...userFindings(principal, path), ...kerberosFindings(principal, path)];
}

function userFindings({ username, password, ntHash }: PrincipalEntry, path: KeyPath): Finding[] {
  const findings: Finding[] = [];
  if (password !== undefined && ntHash !== undefined) {
    findings.push({
      path: [...path, 'ntHash'],
      at: 'key',
      message: 'wanted: password or ntHash, not both',
    });
  }
  if (username !== undefined && password === undefined && ntHash === undefined) {
    findings.push({ path: [...path, 'username'], message: 'wanted beside it: password or ntHash' });
  }
  if (username === undefined && ntHash !== undefined) {
    findings.push({ path: [...path, 'ntHash'], at: 'key', message: 'wanted beside it: username' });
  }
  return findings;
}

function kerberosFindings(principal: PrincipalEntry, path: KeyPath): Finding[] {
  const { kerberos, password, keytab, ccache } = principal;
  const findings: Finding[] = [];
  if (keytab !== undefined && ccache !== undefined) {
    findings.push({
      path: [...path, 'ccache'],
      at: 'key',
      message: 'wanted: keytab or ccache, not both',
    });
  }
  // Other types live in the kernel, in a daemon or in a folder: nothing there can be copied.
  if (ccache !== undefined && /^[A-Za-z]+:/.test(ccache) && !ccache.startsWith('FILE:')) {
    findings.push({ path: [...path, 'ccache'], message: 'wanted: a path or FILE:PATH' });
  }
  if (kerberos !== undefined && given({ password, keytab, ccache }).length === 0) {
    const message = 'wanted beside it: keytab, ccache or password';
    findings.push({ path: [...path, 'kerberos'], message });
  }
  if (kerberos === undefined) {
    for (const key of given({ keytab, ccache })) {
      findings.push({ path: [...path, key], at: 'key', message: 'wanted beside it: kerberos' });
    }
  }
  return findings;
}

function given(values: Readonly<Record<string, unknown>>): string[] {
  return Object.keys(values).filter((key) => values[key] !== undefined);
}
