/**
 * The closed label sets and the bucket bounds of every metric. Which family uses which stands in
 * `metrics.ts`. No word here may come from a caller, a server or a secret (R46).
 */

/** `upstream` of a direct target of a forward listener. */
export const DIRECT_UPSTREAM = 'direct';
/** `issuer` of caches that belong to no issuer. */
export const NO_ISSUER = '';
/** `upstream` of a request that ended before a route was found. */
export const NO_UPSTREAM = 'none';

/** First digit of the status that the caller got; `none` when he went away before any. */
export const STATUS_CLASSES = ['1xx', '2xx', '3xx', '4xx', '5xx', 'none'] as const;
export type StatusClass = (typeof STATUS_CLASSES)[number];

/** Seen from the daemon, on the caller's side: `in` is received, `out` is sent. */
export const DIRECTIONS = ['in', 'out'] as const;
export type Direction = (typeof DIRECTIONS)[number];

/** Kinds of callers' credentials that this version takes. */
export const CLIENTS = ['none', 'basic', 'jwt', 'negotiate', 'header', 'mtls'] as const;
export type ClientWord = (typeof CLIENTS)[number];

/**
 * `refused`: no credentials of a kind that the listener takes, or wrong ones; `failed`: nobody could say
 * whether they are right.
 */
export const INBOUND_RESULTS = ['ok', 'refused', 'failed'] as const;
export type InboundResult = (typeof INBOUND_RESULTS)[number];

/** Of a caller’s handshake; `resumed`: from a ticket. */
export const TLS_RESULTS = ['full', 'resumed', 'failed'] as const;

export const CONNECTION_STATES = ['connecting', 'handshaking', 'active', 'idle'] as const;
export type ConnectionState = (typeof CONNECTION_STATES)[number];

/** Whether the connection carries somebody's identity. */
export const BINDINGS = ['none', 'tied'] as const;
export type Binding = (typeof BINDINGS)[number];

export const CLOSE_REASONS = [
  'idle',
  'age',
  'max_requests',
  'peer',
  'error',
  'unsolicited',
  'auth_failed',
  'evicted',
  'flushed',
  'rotated',
  'shutdown',
] as const;
export type CloseReasonWord = (typeof CLOSE_REASONS)[number];

export const LEASE_RESULTS = ['hit', 'new', 'waited', 'rejected', 'timeout'] as const;
export type LeaseResult = (typeof LEASE_RESULTS)[number];

export const HOPS = ['origin', 'proxy'] as const;
export type Hop = (typeof HOPS)[number];

/** Schemes that this version logs in with. */
export const SCHEMES = ['negotiate', 'ntlm', 'digest', 'basic'] as const;
export type SchemeWord = (typeof SCHEMES)[number];

export const HANDSHAKE_RESULTS = [
  'ok',
  'rejected',
  'no_credential',
  'mutual_failed',
  'loop',
  'aborted',
  'peer_closed',
] as const;
export type HandshakeResult = (typeof HANDSHAKE_RESULTS)[number];

export const TIE_CAUSES = ['own_token', 'client_token', 'challenge', 'proxy_tunnel'] as const;
export type TieCause = (typeof TIE_CAUSES)[number];

export const REAUTHENTICATION_REASONS = [
  'midlife_401',
  'per_request',
  'persistent_false',
  'bare_negotiate',
] as const;
export type ReauthenticationReason = (typeof REAUTHENTICATION_REASONS)[number];

export const POLICY_RULES = [
  'h2_tied',
  'no_isolation_context',
  'wrong_hop',
  'proxy_support',
  'host_sni_mismatch',
  'body_too_large_for_replay',
] as const;
export type PolicyRule = (typeof POLICY_RULES)[number];

export const REFRESH_RESULTS = ['ok', 'failed'] as const;
export type RefreshResult = (typeof REFRESH_RESULTS)[number];

export const RELOAD_RESULTS = ['ok', 'failed'] as const;

/** Each must stay at 0: a socket with two identities, a lease ended twice, a lease never ended. */
export const INVARIANTS = ['two_identities', 'double_release', 'leaked_lease'] as const;
export type InvariantWord = (typeof INVARIANTS)[number];

/** Caches that this version has; those of tokens are one for each issuer. */
export const CACHES = ['identity_digest', 'tls_context', 'basic', 'jwt'] as const;
export type CacheWord = (typeof CACHES)[number];

export const CACHE_EVICTION_REASONS = ['full', 'expired', 'changed', 'cleared'] as const;
export type CacheEvictionReason = (typeof CACHE_EVICTION_REASONS)[number];

/** How bytes reach a socket: Node's stream handle directly, or the public stream interface. */
export const SOCKET_ENGINES = ['handle', 'public'] as const;
export type SocketEngine = (typeof SOCKET_ENGINES)[number];

/** Values of `sidekerb_guard_state`. */
export const GUARD_STATES = { closed: 0, 'half-open': 1, open: 2 } as const;

/** Seconds. An exchange: from a hit on a local origin up to the response deadline's default. */
export const EXCHANGE_BOUNDS = [
  0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60,
] as const;
/** Seconds. A wait for a connection: up to the wait deadline's default. */
export const LEASE_WAIT_BOUNDS = [
  0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5,
] as const;
/** Seconds. A login takes 1 to 300 ms; the deadline's default is 10 s. */
export const HANDSHAKE_BOUNDS = [
  0.001, 0.0025, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 1, 3, 10,
] as const;
/** Messages sent on one login. */
export const LEG_BOUNDS = [1, 2, 3, 4, 6, 10] as const;
/** Requests that one connection carried. */
export const CONNECTION_REQUEST_BOUNDS = [
  0, 1, 2, 5, 10, 20, 50, 100, 500, 1000, 10_000, 100_000,
] as const;
