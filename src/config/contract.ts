/**
 * The whole file, written in the words of `schema.ts`: every key, its form and its default.
 *
 * What needs more than one key to judge is in `checks/`; what is not built yet is in `not-built.ts`.
 */

import { clientKind, clients, listener, serverTls } from './contract-listeners.ts';
import { principal, upstream } from './contract-upstreams.ts';
import { hostPatterns, listenAddresses, socketMode } from './contract-words.ts';
import * as s from './schema.ts';

const SHAPE = {
  version: s.only(1),
  log: s.optionalSection({
    level: s.choice(['trace', 'debug', 'info', 'warn', 'error']).prefault('info'),
    access: s.flag(true),
    principals: s.flag(false),
  }),
  admin: admin().optional(),
  workers: s.count(1, 256).prefault(1),
  watch: s.flag(true),
  stateDir: s.path().optional(),
  shutdown: s.optionalSection({
    delay: s.duration('0s', '10m').prefault('0s'),
    grace: s.duration('0s', '1h').prefault('25s'),
  }),
  limits: s.optionalSection({
    connections: s.count(1, 1_000_000).prefault(10_000),
    upstreamConnections: s.count(1, 1_000_000).prefault(1000),
    partitions: s.count(1, 1_000_000).prefault(10_000),
  }),
  kerberos: s.optionalSection({
    config: s.path().optional(),
    provider: s.choice(['npm', 'gssapi']).prefault('npm'),
  }),
  principals: s.named(principal()).prefault({}),
  upstreams: s.named(upstream()).prefault({}),
  listeners: s.list(listener(), 1),
};

export const CONTRACT = s.section(SHAPE);

/** What is left of a faulty file once its faults are cut out: even the required keys may be gone. */
export const REMAINDER = s.section({
  ...SHAPE,
  version: s.only(1).prefault(1),
  listeners: s.list(listener()).prefault([]),
});

/** The decoded file before references are read: durations in ms, sizes in bytes. */
export type Contract = s.Decoded<typeof CONTRACT>;
export type PrincipalEntry = NonNullable<Contract['principals'][string]>;
export type UpstreamEntry = NonNullable<Contract['upstreams'][string]>;
export type ListenerEntry = Contract['listeners'][number];
export type RouteEntry = NonNullable<ListenerEntry['routes']>[number];
export type ClientEntry = NonNullable<ListenerEntry['clients']>[number];
export type AdminEntry = NonNullable<Contract['admin']>;

function admin() {
  return s.section({
    listen: listenAddresses(),
    socketMode: socketMode(),
    probes: s.section({ listen: listenAddresses() }).optional(),
    readiness: s.choice(['normal', 'strict']).prefault('normal'),
    hosts: hostPatterns().optional(),
    tls: s.list(serverTls(), 1).optional(),
    clients: clients().optional(),
    allow: s
      .list(
        s.section({
          client: clientKind(),
          subject: s.text('wanted: a name; * stands for any text'),
        }),
        1,
      )
      .optional(),
    dangerousOpenAdmin: s.flag(false),
  });
}
