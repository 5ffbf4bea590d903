/** Rules that one upstream must keep by itself, and the names that it uses. */

import type { UpstreamEntry } from '../contract.ts';
import type { Finding, KeyPath } from '../faults.ts';
import { filledPool } from '../pool-defaults.ts';
import { parseTargetUrl } from '../urls.ts';
import type { Check, CheckContext } from './context.ts';
import { besides, eachUpstream, entryOf, unknownName } from './context.ts';

export const checkUpstreams: Check = (context) =>
  eachUpstream(context, (upstream, path, name) => [
    ...addressFindings(upstream, path, name),
    ...authFindings(upstream, path, context),
    ...viaFindings(upstream, path, context),
    ...keyPairFindings(upstream.tls ?? {}, [...path, 'tls']),
    ...poolFindings(upstream, path, context),
  ]);

/** True where the hop is spoken to over TLS. */
export function isSecure(upstream: UpstreamEntry): boolean {
  const target = parseTargetUrl(upstream.url ?? upstream.proxy ?? '');
  return !('fault' in target) && target.scheme === 'https';
}

function addressFindings(upstream: UpstreamEntry, path: KeyPath, name: string): Finding[] {
  const findings: Finding[] = [];
  if (name === 'direct') {
    findings.push({
      path,
      at: 'key',
      message: 'the name is taken: it means without a parent proxy',
    });
  }
  if (upstream.url === undefined && upstream.proxy === undefined) {
    findings.push({ path, message: 'wanted: url (an origin) or proxy (a parent proxy)' });
  }
  if (upstream.url !== undefined && upstream.proxy !== undefined) {
    findings.push({
      path: [...path, 'proxy'],
      at: 'key',
      message: 'wanted: url or proxy, not both',
    });
  }
  const proxy = upstream.proxy === undefined ? undefined : parseTargetUrl(upstream.proxy);
  if (proxy !== undefined && !('fault' in proxy) && proxy.basePath !== '') {
    findings.push({ path: [...path, 'proxy'], message: 'a parent proxy has no path' });
  }
  return findings;
}

function authFindings(upstream: UpstreamEntry, path: KeyPath, context: CheckContext): Finding[] {
  const { auth } = upstream;
  if (auth === undefined) return [];
  const at = [...path, 'auth'];
  const findings: Finding[] = [];
  if (auth.principal !== undefined) {
    const place = { names: context.names.principals, path: [...at, 'principal'] };
    findings.push(...unknownName('principal', auth.principal, place));
  }
  for (const [index, scheme] of auth.schemes.entries()) {
    const place = [...at, 'schemes', index];
    if (auth.schemes.indexOf(scheme) !== index) {
      findings.push({ path: place, message: 'the scheme stands twice' });
    } else if (scheme === 'basic' && !isSecure(upstream) && !auth.dangerousPlaintextBasic) {
      const message =
        'Basic over plain http shows the password; dangerousPlaintextBasic: true allows it';
      const basis = [
        [...path, 'url'],
        [...path, 'proxy'],
        [...at, 'dangerousPlaintextBasic'],
      ];
      findings.push({ path: place, message, basis });
    }
  }
  if (auth.spn?.includes('@') === true && context.contract.kerberos.provider === 'npm') {
    const message =
      'provider npm passes no realm on; the [domain_realm] section of the Kerberos configuration names it';
    findings.push({ path: [...at, 'spn'], message, basis: [['kerberos', 'provider']] });
  }
  if (auth.channelBinding === 'required' && !isSecure(upstream)) {
    const message = 'a channel binding needs https';
    findings.push({ path: [...at, 'channelBinding'], message, ...besides(path, ['url', 'proxy']) });
  }
  return findings;
}

function viaFindings(upstream: UpstreamEntry, path: KeyPath, context: CheckContext): Finding[] {
  if (upstream.proxy !== undefined && upstream.via.length > 0) {
    return [{ path: [...path, 'via'], at: 'key', message: 'a parent proxy is reached directly' }];
  }
  return parentFindings(upstream.via, [...path, 'via'], context);
}

/** Entries of a `via` list: parents by name, or `direct`. */
export function parentFindings(
  via: readonly string[],
  path: KeyPath,
  context: CheckContext,
): Finding[] {
  return via.flatMap((name, index): Finding[] => {
    const at = [...path, index];
    if (via.indexOf(name) !== index) return [{ path: at, message: 'the name stands twice' }];
    if (name === 'direct') return [];
    const parent = entryOf(context.contract.upstreams, name);
    if (parent === undefined || parent.proxy !== undefined) {
      return unknownName('upstream', name, { names: context.names.upstreams, path: at });
    }
    return [{ path: at, message: 'the upstream is no parent proxy: it has no proxy' }];
  });
}

/** `cert` and `key` go together; `pkcs12` stands for both. */
export function keyPairFindings(
  tls: {
    readonly cert?: unknown;
    readonly key?: unknown;
    readonly pkcs12?: unknown;
    readonly passphrase?: unknown;
  },
  path: KeyPath,
): Finding[] {
  const findings: Finding[] = [];
  const beside = besides(path, ['cert', 'key', 'pkcs12', 'passphrase']);
  const say = (key: string, message: string): unknown =>
    findings.push({ path: [...path, key], at: 'key', message, ...beside });
  if (tls.pkcs12 !== undefined && tls.cert !== undefined)
    say('cert', 'wanted: pkcs12 or cert and key, not both');
  else if (tls.pkcs12 !== undefined && tls.key !== undefined)
    say('key', 'wanted: pkcs12 or cert and key, not both');
  else if (tls.cert !== undefined && tls.key === undefined) say('cert', 'wanted beside it: key');
  else if (tls.key !== undefined && tls.cert === undefined) say('key', 'wanted beside it: cert');
  if (tls.passphrase !== undefined && tls.pkcs12 === undefined && tls.key === undefined) {
    say('passphrase', 'wanted beside it: pkcs12 or key');
  }
  return findings;
}

function poolFindings(upstream: UpstreamEntry, path: KeyPath, context: CheckContext): Finding[] {
  const pool = filledPool(upstream);
  const at = [...path, 'pool'];
  const findings: Finding[] = [];
  for (const key of ['maxPerPrincipal', 'maxIdle', 'minIdle'] as const) {
    if (pool[key] <= pool.maxConnections || !context.isWritten([...at, key])) continue;
    const message = `more than maxConnections (${pool.maxConnections})`;
    findings.push({ path: [...at, key], message, ...besides(at, ['maxConnections']) });
  }
  if (pool.minIdle > pool.maxIdle && pool.minIdle <= pool.maxConnections) {
    const message = `more than maxIdle (${pool.maxIdle})`;
    findings.push({ path: [...at, 'minIdle'], message, ...besides(at, ['maxIdle']) });
  }
  return findings;
}
