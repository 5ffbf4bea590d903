/** Who the daemon is towards upstreams in TLS: read by config/, used by upstream/. */
import type { Secret } from './secret.ts';

/** A client certificate and its key, whatever file they were read from. */
export interface TlsIdentity {
  /** PEM, the leaf first. */
  readonly cert: string;
  /** PEM, not encrypted. */
  readonly key: Secret<string>;
}
