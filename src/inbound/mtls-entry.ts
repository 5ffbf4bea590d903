/**
 * Callers whom a certificate of their TLS connection names (config.md, Clients). OpenSSL has verified the
 * chain during the handshake; what can change since is looked at for each request: the time, and the
 * authorities of the listener (R51).
 */
import type { Clock } from '../clock.ts';
import { ProxyError } from '../errors.ts';
import type { CertificateField, ClientCertificate } from '../identity/client-certificate.ts';
import type { MtlsCaller } from './caller.ts';
import type { CallerConnection, ConnectionEntry } from './client-entry.ts';

export interface MtlsSettings {
  /** Which name of a certificate is the caller's. */
  readonly subject: Exclude<CertificateField, 'organization' | 'unit' | 'issuer'>;
  /** Digest of the authorities that the listener has now. */
  readonly trust: string;
  readonly clock: Clock;
}

export class MtlsEntry implements ConnectionEntry {
  readonly kind = 'mtls';
  readonly #settings: MtlsSettings;
  /** One object for as long as a connection lives. */
  readonly #callers = new WeakMap<ClientCertificate, MtlsCaller | ProxyError>();

  constructor(settings: MtlsSettings) {
    this.#settings = settings;
  }

  identify({ certificate }: CallerConnection): MtlsCaller | ProxyError | undefined {
    if (certificate === undefined) return undefined;
    const fault = this.faultOf(certificate);
    if (fault !== undefined) return refusal(fault);
    const known = this.#callers.get(certificate);
    if (known !== undefined) return known;
    const made = this.#callerOf(certificate);
    this.#callers.set(certificate, made);
    return made;
  }

  /** Why a certificate counts for nothing now, as the end of a sentence; undefined: it counts. */
  faultOf(certificate: ClientCertificate): string | undefined {
    const { trust, clock } = this.#settings;
    if (certificate.trust !== trust) return 'was judged by other authorities';
    if (certificate.fault !== undefined) return `is not accepted: ${certificate.fault}`;
    const now = clock.wall();
    if (now >= certificate.notAfterMs) return 'has expired';
    return now < certificate.notBeforeMs ? 'is not valid yet' : undefined;
  }

  /** A certificate with two names of the kind could be either of two callers, and is none. */
  #callerOf(certificate: ClientCertificate): MtlsCaller | ProxyError {
    const { subject } = this.#settings;
    const [user, ...others] = certificate.fields[subject];
    if (user === undefined) return refusal(`has no ${subject}`);
    if (others.length > 0) return refusal(`has more than one ${subject}`);
    return Object.freeze({ kind: 'mtls', user, certificate });
  }
}

const refusal = (what: string): ProxyError =>
  new ProxyError('caller-certificate-refused', `the caller's certificate ${what}`, {
    side: 'downstream',
    stage: 'identify',
  });
