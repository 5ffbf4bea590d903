/**
 * TLS towards an upstream: one immutable context per upstream, and a digest of everything in it.
 *
 * The digest enters the partition key by content (R11): client certificate and key, trust, server
 * name, verification, ALPN and version. Nothing is built per connection.
 */
import { createHmac, randomBytes, X509Certificate } from 'node:crypto';
import { createSecureContext, getCACertificates, type SecureContext } from 'node:tls';
import type { TlsIdentity } from '../identity/tls-identity.ts';

/** What the configuration says; certificates and keys are PEM text, read and parsed before. */
export interface TlsSettings {
  readonly ca: readonly string[] | undefined;
  readonly extraCa: readonly string[];
  /** undefined: no SNI and verification by address, as for an IP literal. */
  readonly servername: string | undefined;
  readonly identity: TlsIdentity | undefined;
  readonly minVersion: 'TLSv1.2' | 'TLSv1.3';
  readonly dangerousSkipVerify: boolean;
}

export interface TlsProfile {
  readonly context: SecureContext;
  readonly servername: string | undefined;
  readonly rejectUnauthorized: boolean;
  /** Logins are bound to one connection, which HTTP/2 would share (R21). */
  readonly alpn: readonly ['http/1.1'];
  readonly minVersion: 'TLSv1.2' | 'TLSv1.3';
  /** Keyed digest of all of the above, secrets included; safe to keep and compare. */
  readonly digest: string;
  /** End of the client certificate, ms since 1970; Infinity without one. */
  readonly notAfter: number;
}

const DIGEST_KEY = randomBytes(32);

/** Default trust: Node's store and the system's; `ca` replaces both, `extraCa` adds (config.md, Trust). */
function trust(settings: TlsSettings): string[] {
  if (settings.ca !== undefined) return [...settings.ca, ...settings.extraCa];
  return [...getCACertificates('default'), ...getCACertificates('system'), ...settings.extraCa];
}

function identityOptions(identity: TlsSettings['identity']): Record<string, string> {
  return identity === undefined ? {} : { cert: identity.cert, key: identity.key.reveal() };
}

/**
 * Builds the profile; `known` is given back where it has the same content, as trusting a whole store
 * takes tens of milliseconds. Throws what OpenSSL says of an unusable certificate or key.
 */
export function createTlsProfile(settings: TlsSettings, known?: TlsProfile): TlsProfile {
  const own = identityOptions(settings.identity);
  const digest = profileDigest(settings, own);
  if (known?.digest === digest) return known;
  const context = createSecureContext({
    ca: trust(settings),
    ...own,
    minVersion: settings.minVersion,
  });
  return {
    context,
    servername: settings.servername,
    rejectUnauthorized: !settings.dangerousSkipVerify,
    alpn: ['http/1.1'],
    minVersion: settings.minVersion,
    digest,
    notAfter: clientCertificateEnd(settings),
  };
}

function clientCertificateEnd(settings: TlsSettings): number {
  if (settings.identity === undefined) return Infinity;
  return new X509Certificate(settings.identity.cert).validToDate.getTime();
}

function profileDigest(settings: TlsSettings, own: Record<string, string>): string {
  const hmac = createHmac('sha256', DIGEST_KEY);
  const add = (name: string, value: string | undefined): void => {
    const bytes = value === undefined ? Buffer.alloc(0) : Buffer.from(value);
    hmac.update(`${name}:${value === undefined ? 'absent' : bytes.length}:`).update(bytes);
  };
  for (const pem of settings.ca ?? []) add('ca', pem);
  add('ca-replaced', settings.ca === undefined ? undefined : '');
  for (const pem of settings.extraCa) add('extra-ca', pem);
  for (const [name, value] of Object.entries(own)) add(name, value);
  add('servername', settings.servername);
  add('verify', String(!settings.dangerousSkipVerify));
  add('min-version', settings.minVersion);
  add('alpn', 'http/1.1');
  return hmac.digest('hex');
}
