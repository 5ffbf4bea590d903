import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { ERROR_CODES } from '../../../src/errors.ts';
import { Metrics } from '../../../src/metrics/metrics.ts';

function makeMetrics(): Metrics {
  return new Metrics({
    listeners: ['api', 'egress'],
    upstreams: ['crm', 'site'],
    principals: ['alice', 'bob'],
    issuers: ['https://idp.example/'],
    version: '0.1.0',
    routes: [{ listener: 'api', upstream: 'crm' }],
    logins: [{ principal: 'alice', upstream: 'crm' }],
  });
}

const UPSTREAM = 'upstream=*';
const LISTENER = 'listener=*';
const HOP_SCHEME = ['hop=origin|proxy', 'scheme=negotiate|ntlm|digest|basic'];
const CACHE = ['cache=identity_digest|tls_context|basic|jwt', 'issuer=*'] as const;

/** Every metric: name, kind, labels with their words; `*` is a configured name. */
const EXPECTED: [string, string, ...string[]][] = [
  ['sidekerb_requests_total', 'counter', LISTENER, UPSTREAM, 'class=1xx|2xx|3xx|4xx|5xx|none'],
  ['sidekerb_request_duration_seconds', 'histogram', LISTENER, UPSTREAM],
  ['sidekerb_upstream_first_byte_seconds', 'histogram', UPSTREAM],
  ['sidekerb_errors_total', 'counter', LISTENER, `reason=${ERROR_CODES.join('|')}`],
  ['sidekerb_downstream_connections', 'gauge', LISTENER],
  ['sidekerb_tls_handshakes_total', 'counter', LISTENER, 'result=full|resumed|failed'],
  ['sidekerb_tls_certificate_not_after_timestamp_seconds', 'gauge', LISTENER],
  ['sidekerb_tunnels', 'gauge', LISTENER],
  ['sidekerb_bytes_total', 'counter', LISTENER, 'direction=in|out'],
  [
    'sidekerb_inbound_auth_total',
    'counter',
    LISTENER,
    'client=none|basic|jwt|negotiate|header|mtls',
    'result=ok|refused|failed',
  ],
  [
    'sidekerb_upstream_connections',
    'gauge',
    UPSTREAM,
    'state=connecting|handshaking|active|idle',
    'binding=none|tied',
  ],
  ['sidekerb_upstream_connections_opened_total', 'counter', UPSTREAM],
  [
    'sidekerb_upstream_connections_closed_total',
    'counter',
    UPSTREAM,
    'reason=idle|age|max_requests|peer|error|unsolicited|auth_failed|evicted|flushed|rotated|shutdown',
  ],
  [
    'sidekerb_pool_lease_requests_total',
    'counter',
    UPSTREAM,
    'result=hit|new|waited|rejected|timeout',
  ],
  ['sidekerb_pool_lease_wait_seconds', 'histogram', UPSTREAM],
  ['sidekerb_pool_waiters', 'gauge', UPSTREAM],
  ['sidekerb_pool_partitions', 'gauge', UPSTREAM],
  ['sidekerb_connection_requests', 'histogram', UPSTREAM, 'binding=none|tied'],
  [
    'sidekerb_handshakes_total',
    'counter',
    UPSTREAM,
    ...HOP_SCHEME,
    'result=ok|rejected|no_credential|mutual_failed|loop|aborted|peer_closed',
  ],
  ['sidekerb_handshake_duration_seconds', 'histogram', ...HOP_SCHEME],
  ['sidekerb_handshake_legs', 'histogram', ...HOP_SCHEME],
  [
    'sidekerb_connections_tied_total',
    'counter',
    UPSTREAM,
    'cause=own_token|client_token|challenge|proxy_tunnel',
  ],
  [
    'sidekerb_reauthentications_total',
    'counter',
    UPSTREAM,
    'reason=midlife_401|per_request|persistent_false|bare_negotiate',
  ],
  [
    'sidekerb_policy_refusals_total',
    'counter',
    'rule=h2_tied|no_isolation_context|wrong_hop|proxy_support|host_sni_mismatch|body_too_large_for_replay',
  ],
  ['sidekerb_unauthenticated_accepts_total', 'counter', UPSTREAM],
  ['sidekerb_guard_state', 'gauge', 'principal=*', UPSTREAM],
  ['sidekerb_kerberos_helper_restarts_total', 'counter'],
  ['sidekerb_credential_generation', 'gauge', 'credential=*'],
  ['sidekerb_cache_requests_total', 'counter', ...CACHE],
  ['sidekerb_cache_hits_total', 'counter', ...CACHE],
  ['sidekerb_cache_evictions_total', 'counter', ...CACHE, 'reason=full|expired|changed|cleared'],
  ['sidekerb_cache_entries', 'gauge', ...CACHE],
  ['sidekerb_jwks_refreshes_total', 'counter', 'issuer=*', 'result=ok|failed'],
  ['sidekerb_jwks_last_success_timestamp_seconds', 'gauge', 'issuer=*'],
  ['sidekerb_config_reloads_total', 'counter', 'result=ok|failed'],
  [
    'sidekerb_invariant_violations_total',
    'counter',
    'invariant=two_identities|double_release|leaked_lease',
  ],
  ['sidekerb_raw_socket', 'gauge', 'engine=handle|public'],
  ['sidekerb_build_info', 'gauge', 'version=*', 'node=*', 'openssl=*'],
];

function seriesOf(metrics: Metrics, name: string): string[] {
  const family = metrics.families.find((candidate) => candidate.name === name);
  return [...(family?.entries() ?? [])].map(({ values }) => values.join(' '));
}

describe('the metrics', () => {
  test('are exactly these, with these labels and words', () => {
    const found = makeMetrics().families.map(({ name, kind, labels }) => [
      name,
      kind,
      ...labels.map((label) => `${label.name}=${label.words?.join('|') ?? '*'}`),
    ]);
    assert.deepEqual(found, EXPECTED);
  });

  test('follow the conventions: counters end in _total, base units, no unit in a label', () => {
    for (const { name, kind, labels } of makeMetrics().families) {
      assert.match(name, /^sidekerb_[a-z]+(_[a-z]+)*$/);
      assert.equal(name.endsWith('_total'), kind === 'counter', name);
      assert.doesNotMatch(
        name,
        /_(ms|milliseconds|minutes|kb|kib|percent|ratio|count|sum|bucket)\b/,
      );
      for (const label of labels) {
        assert.match(label.name, /^[a-z]+$/);
        assert.ok(!['le', 'quantile', 'job', 'instance'].includes(label.name), label.name);
        assert.ok(!/seconds|bytes|ms$/.test(label.name), label.name);
      }
    }
  });

  test('of tokens are one series for each issuer, and go with it', () => {
    const metrics = makeMetrics();
    const shown = (): string[] => seriesOf(metrics, 'sidekerb_cache_hits_total');
    assert.deepEqual(shown(), [
      'identity_digest ',
      'tls_context ',
      'basic ',
      'jwt https://idp.example/',
    ]);
    metrics.removeIssuer('https://idp.example/');
    assert.deepEqual(shown(), ['identity_digest ', 'tls_context ', 'basic ']);
    assert.deepEqual(seriesOf(metrics, 'sidekerb_jwks_refreshes_total'), []);
  });

  test('all have series before anything happened, all at 0 but the facts of the build', () => {
    for (const family of makeMetrics().families) {
      const series = [...family.entries()];
      assert.ok(series.length > 0, family.name);
      for (const { instrument } of series) {
        const value = 'count' in instrument ? instrument.count : instrument.value;
        assert.equal(value, family.name === 'sidekerb_build_info' ? 1 : 0, family.name);
      }
    }
  });

  test('show only pairs of names that can occur', () => {
    const metrics = makeMetrics();
    assert.deepEqual(seriesOf(metrics, 'sidekerb_request_duration_seconds'), ['api crm']);
    assert.deepEqual(seriesOf(metrics, 'sidekerb_guard_state'), ['alice crm']);
    const all = new Metrics({ listeners: ['l'], upstreams: ['u'], principals: ['p'], version: '' });
    assert.deepEqual(seriesOf(all, 'sidekerb_request_duration_seconds'), ['l u', 'l none']);
    assert.deepEqual(seriesOf(all, 'sidekerb_guard_state'), ['p u']);
  });

  test('forget a removed upstream and principal, and take a new upstream', () => {
    const metrics = makeMetrics();
    metrics.removeUpstream('crm');
    metrics.removePrincipal('alice');
    metrics.addNames({ listeners: ['api'], upstreams: ['new'], principals: [] });
    const all = metrics.families.flatMap(({ name }) => seriesOf(metrics, name)).join(' ');
    assert.doesNotMatch(all, /\b(crm|alice)\b/);
    assert.match(all, /\bbob\b/);
    const opened = 'sidekerb_upstream_connections_opened_total';
    assert.deepEqual(seriesOf(metrics, opened), ['site', 'new']);
  });

  test('are brought up to date by the parts that keep their own books', () => {
    const metrics = makeMetrics();
    let partitions = 3;
    metrics.onCollect(() => metrics.poolPartitions.child('crm').set(partitions));
    metrics.collect();
    assert.equal(metrics.poolPartitions.child('crm').value, 3);
    partitions = 4;
    metrics.collect();
    assert.equal(metrics.poolPartitions.child('crm').value, 4);
  });
});
