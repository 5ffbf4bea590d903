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
  const kinds = clientKinds(listener);
  const issuers = jwtIssuers(listener);
  return (listener.principal ?? []).flatMap(({ when, use }, index): Finding[] => {
    const at = [...path, 'principal', index];
    const findings = unknownName('principal', use, {
      names: context.names.principals,
      path: [...at, 'use'],
    });
    if (when.client === undefined && new Set(kinds).size > 1) {
      findings.push({
        path: [...at, 'when'],
        message: 'client must be named: the listener has several kinds',
      });
    }
    if (when.client !== undefined && !kinds.includes(when.client)) {
      findings.push({
        path: [...at, 'when', 'client'],
        message: 'not among the clients of the listener',
      });
    }
    const isJwt = (when.client ?? kinds[0]) === 'jwt';
    if (isJwt && issuers.length > 1 && when.issuer === undefined) {
      findings.push({
        path: [...at, 'when'],
        message: 'issuer must be named: the listener has several jwt clients',
      });
    }
    if (when.issuer !== undefined && !isJwt) {
      findings.push({
        path: [...at, 'when', 'issuer'],
        at: 'key',
        message: 'issuers are for jwt clients',
      });
    } else if (when.issuer !== undefined && !issuers.includes(when.issuer)) {
      findings.push({
        path: [...at, 'when', 'issuer'],
        message: 'no jwt client of the listener has this issuer',
      });
    }
    if (when.claim !== undefined && !isJwt) {
      findings.push({
        path: [...at, 'when', 'claim'],
        at: 'key',
        message: 'claims are for jwt clients',
      });
    }
    return findings;
  });
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
