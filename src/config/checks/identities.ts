/**
 * Whether every caller gets a principal that he may have, and every principal can log in where it
 * is used: listener rules, `from: client`, callers that nobody verified, schemes, channel bindings.
 */

import type { ListenerEntry, UpstreamEntry } from '../contract.ts';
import type { Finding, KeyPath } from '../faults.ts';
import { formatPath } from '../faults.ts';
import type { Check, CheckContext } from './context.ts';
import { clientKinds, eachListener, eachUpstream, entryOf, unknownName } from './context.ts';
import type { Parts } from './principals.ts';
import { canServe, partsOf } from './principals.ts';
import { callerFindings, openDoorFindings } from './unverified-callers.ts';
import { usesOf } from './uses.ts';

export const checkIdentities: Check = (context) => {
  const uses = usesOf(context.contract);
  return [
    ...eachListener(context, (listener, path) => ruleFindings(listener, path, context)),
    ...firstOfPath(uses.flatMap((use) => callerFindings(use, context))),
    ...eachListener(context, (listener, path) =>
      openDoorFindings(listener, path, { context, uses }),
    ),
    ...eachUpstream(context, (upstream, path, name) => {
      const principals = new Set(
        uses.filter((use) => use.upstream === name).map(({ principal }) => principal),
      );
      if (upstream.auth?.principal !== undefined) principals.add(upstream.auth.principal);
      return schemeFindings(upstream, [...path, 'auth'], { context, principals });
    }),
  ];
};

function ruleFindings(listener: ListenerEntry, path: KeyPath, context: CheckContext): Finding[] {
  return (listener.principal ?? []).flatMap(({ when, use }, index): Finding[] => {
    const at = [...path, 'principal', index];
    const names = { names: context.names.principals, path: [...at, 'use'] };
    return [
      ...unknownName('principal', use, names),
      ...kindFindings(when, listener, [...at, 'when']),
      ...conditionFindings(when, listener, [...at, 'when']),
    ];
  });
}

type When = NonNullable<ListenerEntry['principal']>[number]['when'];

/** Which kind of caller a rule is for must not be left to chance. */
function kindFindings({ client }: When, listener: ListenerEntry, path: KeyPath): Finding[] {
  const kinds = clientKinds(listener);
  if (client === undefined && new Set(kinds).size > 1) {
    return [{ path, message: 'client must be named: the listener has several kinds' }];
  }
  if (client === undefined || kinds.includes(client)) return [];
  return [{ path: [...path, 'client'], message: 'not among the clients of the listener' }];
}

/** What a rule asks, its kind of caller must be able to have. */
function conditionFindings(when: When, listener: ListenerEntry, path: KeyPath): Finding[] {
  const kind = when.client ?? clientKinds(listener)[0];
  const issuers = jwtIssuers(listener);
  const findings: Finding[] = [];
  const misplaced = (key: 'issuer' | 'claim' | 'certificate', message: string): void => {
    if (when[key] !== undefined) findings.push({ path: [...path, key], at: 'key', message });
  };
  if (kind !== 'mtls') misplaced('certificate', 'certificate fields are for mtls clients');
  if (kind !== 'jwt') {
    misplaced('issuer', 'issuers are for jwt clients');
    misplaced('claim', 'claims are for jwt clients');
    return findings;
  }
  if (issuers.length > 1 && when.issuer === undefined) {
    const message = 'issuer must be named: the listener has several jwt clients';
    findings.push({ path, message });
  }
  if (when.issuer !== undefined && !issuers.includes(when.issuer)) {
    const message = 'no jwt client of the listener has this issuer';
    findings.push({ path: [...path, 'issuer'], message });
  }
  return findings;
}

function jwtIssuers(listener: ListenerEntry): string[] {
  return (listener.clients ?? []).flatMap((client) =>
    client !== 'none' && 'jwt' in client ? [client.jwt.issuer] : [],
  );
}

interface SchemePlace {
  readonly context: CheckContext;
  readonly principals: ReadonlySet<string>;
}

function schemeFindings(
  upstream: UpstreamEntry,
  path: KeyPath,
  { context, principals }: SchemePlace,
): Finding[] {
  const { auth } = upstream;
  if (auth === undefined) return [];
  const isWritten = context.isWritten([...path, 'schemes']);
  const findings: Finding[] = [];
  for (const name of principals) {
    const principal = entryOf(context.contract.principals, name);
    if (principal === undefined) continue;
    const parts = partsOf(principal);
    const basis = [
      ['principals', name],
      ['kerberos', 'provider'],
    ];
    const lame = auth.schemes.filter((scheme) => !canServe(parts, scheme));
    // The default list is an offer; a list that was written is a demand.
    for (const scheme of isWritten ? lame : []) {
      const at = [...path, 'schemes', auth.schemes.indexOf(scheme)];
      findings.push({
        path: at,
        message: `no part of principal ${name} can serve ${scheme}`,
        basis,
      });
    }
    if (auth.channelBinding === 'required' && !canBind(parts, upstream, context)) {
      const message = `principal ${name} can only use Kerberos here, and provider npm sends no channel binding`;
      findings.push({ path: [...path, 'channelBinding'], message, basis });
    }
  }
  return firstOfPath(findings);
}

/** NTLM binds always; Kerberos only where the provider can pass bindings on. */
function canBind(parts: Parts, upstream: UpstreamEntry, context: CheckContext): boolean {
  const schemes = upstream.auth?.schemes ?? [];
  if (parts.ntlm && (schemes.includes('ntlm') || schemes.includes('negotiate'))) return true;
  return (
    context.contract.kerberos.provider !== 'npm' && parts.kerberos && schemes.includes('negotiate')
  );
}

function firstOfPath(findings: readonly Finding[]): Finding[] {
  const places = findings.map(({ path }) => formatPath(path));
  return findings.filter((_, index) => places.indexOf(places[index] ?? '') === index);
}
