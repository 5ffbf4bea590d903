/** The certificates of a listener, read and checked, and whether they are for the names that it has. */
import { isIP } from 'node:net';
import type { ServerCertificate } from '../identity/server-certificate.ts';
import { parseHostPattern } from './addresses.ts';
import type { HostPattern, ListenerTlsConfig } from './config.ts';
import type { ListenerEntry } from './contract.ts';
import type { CredentialLoader } from './credentials.ts';
import type { KeyPath } from './faults.ts';

/** undefined: plain HTTP. Faults go to `credentials`, and their certificates are left out. */
export function listenerTls(
  { tls, hosts = [] }: ListenerEntry,
  path: KeyPath,
  credentials: CredentialLoader,
): ListenerTlsConfig | undefined {
  const [first] = tls ?? [];
  if (tls === undefined || first === undefined) return undefined;
  const certificates = tls.flatMap(
    (entry, index) => credentials.serverCertificate(entry, [...path, 'tls', index]) ?? [],
  );
  for (const [index, written] of hosts.entries()) {
    const name = parseHostPattern(written);
    // A faulty certificate is fault enough.
    if (name === undefined || certificates.length < tls.length) continue;
    if (isCovered(name, certificates)) continue;
    const message = 'no certificate of tls covers this name';
    credentials.findings.push({ path: [...path, 'hosts', index], message, kind: 'credential' });
  }
  return { certificates, minVersion: first.minVersion };
}

/** Whoever calls this machine by address, or by the name that each machine has, knows it already. */
function isCovered(
  { host, wildcard }: HostPattern,
  certificates: readonly ServerCertificate[],
): boolean {
  if (!wildcard && (host === 'localhost' || isIP(host) !== 0)) return true;
  const names = wildcard ? [`*.${host}`] : [host, `*${host.slice(host.indexOf('.'))}`];
  return certificates.some((certificate) => names.some((name) => certificate.names.includes(name)));
}
