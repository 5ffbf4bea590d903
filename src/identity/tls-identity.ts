/** Who the daemon is towards upstreams in TLS: read by config/, used by upstream/. */
import type { Secret } from './secret.ts';

/** A client certificate and its key, as they were read. PEM is text; PKCS#12 is one file of both. */
export type TlsIdentity =
  | {
      readonly kind: 'pem';
      readonly cert: string;
      readonly key: Secret<string>;
      readonly passphrase: Secret<string> | undefined;
    }
  | {
      readonly kind: 'pkcs12';
      readonly pkcs12: Secret<Buffer>;
      readonly passphrase: Secret<string> | undefined;
    };
