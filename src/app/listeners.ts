/** Makes listeners from the configuration, and says where they listen. */
import type { ListenAddress, ListenerConfig } from '../config/config.ts';
import { createForwardingWriter } from '../proxy/forwarding.ts';
import { ListenerObserver } from '../proxy/observer.ts';
import { SharedRequestHead } from '../relay/context.ts';
import { Listener, trustList } from '../server/listener.ts';
import { RequestFields } from '../wire/request-fields.ts';
import { createDispatcher } from './dispatchers.ts';
import type { Generation } from './generation.ts';
import type { Runtime } from './runtime.ts';

/** A listener that is not open yet. */
export function createListener(
  listener: ListenerConfig,
  generation: Generation,
  runtime: Runtime,
): Listener {
  const { engine, access, log, budget, buffers, context, metrics } = runtime;
  const fields = new RequestFields(listener.identityHeaders);
  const { head, idle, body } = listener.timeouts;
  const created: Listener = new Listener(
    {
      name: listener.name,
      addresses: listener.listen,
      socketMode: listener.socketMode,
      perClient: listener.limits.perClient,
      trusted: trustList(listener.forwarded.trust),
    },
    {
      engine,
      log,
      budget,
      buffers,
      forwarding: (address, trusted) =>
        createForwardingWriter(listener.forwarded.send, { address, trusted, scheme: 'http' }),
      downstream: {
        context,
        heads: new SharedRequestHead(fields),
        settings: {
          headMs: head,
          idleMs: idle,
          bodyMs: body,
          limits: { maxBytes: listener.limits.head, maxFields: listener.limits.headers },
        },
        dispatcher: createDispatcher(generation, runtime, listener, fields),
        observer: new ListenerObserver({
          metrics,
          log,
          access,
          listener: listener.name,
          gone: (connection) => created.gone(connection),
        }),
      },
    },
  );
  metrics.onCollect(() =>
    metrics.downstreamConnections.child(listener.name).set(created.connections),
  );
  return created;
}

/** What a server says of its address, as the configuration writes it. */
export function listenAddress(address: string | { address: string; port: number }): ListenAddress {
  if (typeof address === 'string') return { kind: 'unix', path: address };
  const { address: host, port } = address;
  return { kind: 'tcp', host, port, loopback: host === '::1' || host.startsWith('127.') };
}
