/** Makes what listeners show of certificates, and ask of their callers’, from the configuration. */
import type { Config, ListenerConfig } from '../config/config.ts';
import { type ClientTrust, createListenerTls, type ListenerTls } from '../server/tls-profile.ts';

/**
 * By name of the listener; none for those that speak plain HTTP. One that is as in `previous` is the same
 * object. Throws what OpenSSL says of an unusable certificate or key.
 */
export function createListenersTls(
  { listeners }: Config,
  previous?: ReadonlyMap<string, ListenerTls>,
): ReadonlyMap<string, ListenerTls> {
  const made = new Map<string, ListenerTls>();
  for (const listener of listeners) {
    if (listener.tls === undefined) continue;
    const { certificates, minVersion } = listener.tls;
    const settings = {
      certificates,
      minVersion,
      clients: clientTrust(listener),
      protocols: listener.http2 ? (['h2', 'http/1.1'] as const) : (['http/1.1'] as const),
      handshakeMs: listener.timeouts.head,
    };
    made.set(listener.name, createListenerTls(settings, previous?.get(listener.name)));
  }
  return made;
}

/** A certificate is a must only where there is no other way in. */
function clientTrust({ clients }: ListenerConfig): ClientTrust | undefined {
  const mtls = clients.find((one) => one.kind === 'mtls');
  if (mtls?.kind !== 'mtls') return undefined;
  return { ca: mtls.ca, required: clients.every(({ kind }) => kind === 'mtls') };
}
