/**
 * TLS towards callers: the certificates of one listener as contexts that are made once, and a digest of
 * everything in them. Nothing is read, parsed or decrypted for a handshake.
 *
 * A session ticket is worth something only under the client trust that issued it (R51): listeners that ask
 * for certificates issue none, and others keep their ticket key only as long as they ask for none.
 */
import { constants, randomBytes } from 'node:crypto';
import { createSecureContext, type SecureContext, type TlsOptions } from 'node:tls';
import { exactBytes, keyedDigest } from '../identity/process-key.ts';
import type { ServerCertificate } from '../identity/server-certificate.ts';

export interface ListenerTlsSettings {
  /** At least one; the first is for callers who name nothing that another one covers. */
  readonly certificates: readonly ServerCertificate[];
  readonly minVersion: 'TLSv1.2' | 'TLSv1.3';
  /** undefined: callers are asked for no certificate. */
  readonly clients: ClientTrust | undefined;
  /** In order of preference. */
  readonly protocols: readonly ('h2' | 'http/1.1')[];
  readonly handshakeMs: number;
}

export interface ClientTrust {
  /** PEM certificates of authorities. */
  readonly ca: readonly string[];
  /** Without a certificate there is no connection. */
  readonly required: boolean;
}

/** Immutable. */
export interface ListenerTls {
  /** For `tls.createServer`. */
  readonly options: TlsOptions;
  /** Digest of the authorities that callers are judged by; undefined: nobody is asked. */
  readonly trust: string | undefined;
  /** Keyed digest of all settings. */
  readonly digest: string;
}

/** Node takes exactly this. */
const TICKET_KEY_BYTES = 48;

/**
 * `known` is given back where nothing changed, and its ticket keys live on while nobody is asked for a
 * certificate. Throws what OpenSSL says of an unusable certificate or key.
 */
export function createListenerTls(settings: ListenerTlsSettings, known?: ListenerTls): ListenerTls {
  const digest = digestOf(settings);
  if (known?.digest === digest) return known;
  const { clients, protocols, handshakeMs } = settings;
  const trust = clients === undefined ? undefined : trustDigest(clients);
  const contexts = settings.certificates.map((each) => ({
    names: each.names,
    context: createSecureContext(contextOptions(each, settings)),
  }));
  const [first] = settings.certificates;
  if (first === undefined) throw new Error('a TLS listener needs a certificate');
  const contextOf = contextFinder(contexts);
  const ticketKeys =
    trust === undefined && known?.trust === undefined ? known?.options.ticketKeys : undefined;
  return {
    options: {
      ...contextOptions(first, settings),
      ALPNProtocols: [...protocols],
      SNICallback: (servername, answer) => answer(null, contextOf(servername)),
      handshakeTimeout: handshakeMs,
      ticketKeys: ticketKeys ?? randomBytes(TICKET_KEY_BYTES),
      ...(clients === undefined ? {} : { requestCert: true, rejectUnauthorized: clients.required }),
    },
    trust,
    digest,
  };
}

/** Each context has the trust itself: one without would take the public authorities for it. */
function contextOptions(
  { chain, key }: ServerCertificate,
  { minVersion, clients }: ListenerTlsSettings,
): TlsOptions {
  const base = {
    cert: chain,
    key: key.reveal(),
    minVersion,
    honorCipherOrder: true,
    sessionIdContext: clients === undefined ? 'callers' : trustDigest(clients).slice(0, 32),
  };
  // What was seen of a connection in its handshake has to stay true, and a handshake costs a place.
  const { SSL_OP_NO_RENEGOTIATION: once, SSL_OP_NO_TICKET: noTicket } = constants;
  if (clients === undefined) return { ...base, secureOptions: once };
  return { ...base, ca: [...clients.ca], secureOptions: once | noTicket };
}

interface NamedContext {
  readonly names: readonly string[];
  readonly context: SecureContext;
}

/** Exact names first, then wildcards of one label (RFC 9525 6.3); the first certificate that has one. */
function contextFinder(
  contexts: readonly NamedContext[],
): (servername: string) => SecureContext | undefined {
  const byName = new Map<string, SecureContext>();
  for (const { names, context } of contexts) {
    for (const name of names) if (!byName.has(name)) byName.set(name, context);
  }
  return (servername) => {
    const name = servername.toLowerCase().replace(/\.$/, '');
    return byName.get(name) ?? byName.get(`*${name.slice(Math.max(0, name.indexOf('.')))}`);
  };
}

function trustDigest({ ca, required }: ClientTrust): string {
  return keyed('client trust', [String(required), ...ca]);
}

function digestOf(settings: ListenerTlsSettings): string {
  const { certificates, minVersion, clients, protocols, handshakeMs } = settings;
  const parts = certificates.flatMap(({ chain, key }) => [chain, key.reveal()]);
  const trust = clients === undefined ? 'none' : trustDigest(clients);
  return keyed('listener', [minVersion, trust, protocols.join(), String(handshakeMs), ...parts]);
}

function keyed(purpose: string, parts: readonly string[]): string {
  return keyedDigest(`tls ${purpose}`, ...parts.map(exactBytes)).toString('hex');
}
