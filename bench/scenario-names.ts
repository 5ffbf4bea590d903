/**
 * The cases beside the reverse proxy's: forwarding through parents, tunnels, tokens. How each is set up
 * is in `scenarios/`, how each peer is started in `forward/`.
 */

import { OWN_SUBJECT } from './subject-names.ts';

export const FORWARD_NAMES = [
  OWN_SUBJECT,
  'haproxy',
  'squid',
  'tinyproxy',
  'cntlm',
  'cypress-ntlm-auth',
] as const;

export type ForwardName = (typeof FORWARD_NAMES)[number];

/** sidekerb itself, configured otherwise: what a setting costs or saves. */
export const OWN_VARIANTS = [
  'cache-off',
  'no-callers',
  'fields-unread',
  'fields-passed-on',
  // Not sidekerb at all, and nothing that a machine might lack: Node's own TLS.
  'decrypt-2048',
  'decrypt-100000',
  'http-proxy-3-h2',
  // Where there is nginx at all.
  'nginx-h2',
] as const;

export type OwnVariant = (typeof OWN_VARIANTS)[number];

export type ScenarioSubject = ForwardName | OwnVariant;

export const isForwardName = (name: ScenarioSubject): name is ForwardName =>
  !OWN_VARIANTS.some((variant) => variant === name);

export const SCENARIO_NAMES = [
  'jwt-http-1',
  'jwt-http-10',
  'jwt-cold',
  'headers-read',
  'h2-tiny',
  'jwt-h2-1',
  'jwt-h2-10',
  'jwt-h2-cold',
  'tls-rsa-12',
  'tls-rsa-13',
  'tls-ec-12',
  'tls-ec-13',
  'tls-resumed-12',
  'tls-resumed-13',
  'tokens',
  'ntlm-parent',
  'ntlm-origin',
  'kerberos-parent',
  'tunnel-1g-down',
  'tunnel-1g-up',
  'tunnel-short',
] as const;

export type ScenarioName = (typeof SCENARIO_NAMES)[number];

export type HandshakeName = Extract<ScenarioName, `tls-${string}`>;

/** What is measured of one case. */
export interface ScenarioPlan {
  readonly name: ScenarioName;
  /** Connections, tunnels or tokens at a time. */
  readonly connections: readonly number[];
  readonly subjects: readonly ScenarioSubject[];
}

const TUNNELLERS = [OWN_SUBJECT, 'haproxy', 'squid', 'tinyproxy', 'cntlm'] as const;

const DECRYPTING = [OWN_SUBJECT, 'decrypt-2048', 'decrypt-100000'] as const;

/**
 * In the order of a run. cypress-ntlm-auth logs in at origins alone: it does not know 407, so it stands
 * in a case of its own and not behind the parent. squid cannot log in by NTLM at all.
 */
export const SCENARIO_PLANS: readonly ScenarioPlan[] = [
  { name: 'jwt-http-1', connections: [1], subjects: [OWN_SUBJECT, 'cache-off'] },
  { name: 'jwt-http-10', connections: [10], subjects: [OWN_SUBJECT, 'cache-off'] },
  { name: 'jwt-cold', connections: [10], subjects: [OWN_SUBJECT, 'cache-off', 'no-callers'] },
  {
    name: 'headers-read',
    connections: [64],
    subjects: [OWN_SUBJECT, 'fields-unread', 'fields-passed-on'],
  },
  {
    name: 'h2-tiny',
    connections: [4],
    subjects: [OWN_SUBJECT, 'nginx-h2', 'http-proxy-3-h2'],
  },
  { name: 'jwt-h2-1', connections: [1], subjects: [OWN_SUBJECT, 'cache-off'] },
  { name: 'jwt-h2-10', connections: [10], subjects: [OWN_SUBJECT, 'cache-off'] },
  { name: 'jwt-h2-cold', connections: [10], subjects: [OWN_SUBJECT, 'cache-off'] },
  ...(['tls-rsa-12', 'tls-rsa-13', 'tls-ec-12', 'tls-ec-13'] as const).map(
    (name): ScenarioPlan => ({ name, connections: [8], subjects: DECRYPTING }),
  ),
  { name: 'tls-resumed-12', connections: [8], subjects: [OWN_SUBJECT] },
  { name: 'tls-resumed-13', connections: [8], subjects: [OWN_SUBJECT] },
  { name: 'tokens', connections: [1, 32], subjects: [OWN_SUBJECT] },
  { name: 'ntlm-parent', connections: [16], subjects: [OWN_SUBJECT, 'cntlm'] },
  { name: 'ntlm-origin', connections: [16], subjects: [OWN_SUBJECT, 'cypress-ntlm-auth'] },
  { name: 'kerberos-parent', connections: [16], subjects: [OWN_SUBJECT, 'squid'] },
  { name: 'tunnel-1g-down', connections: [1], subjects: TUNNELLERS },
  { name: 'tunnel-1g-up', connections: [1], subjects: TUNNELLERS },
  { name: 'tunnel-short', connections: [16], subjects: TUNNELLERS },
];
