import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { counterFamily, histogramFamily, names } from '../../../src/metrics/instruments.ts';
import { Metrics } from '../../../src/metrics/metrics.ts';
import { createMetricsText } from '../../../src/metrics/prometheus.ts';

const SAMPLE =
  /^([a-zA-Z_:][a-zA-Z0-9_:]*)(\{(?:[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\["\\n])*",?)*\})? (\S+)$/;

interface Parsed {
  readonly types: Map<string, string>;
  readonly helps: Map<string, string>;
  readonly samples: Map<string, string>;
}

/** Reads the text format and asserts its rules: HELP and TYPE once, before samples of the family. */
function parse(text: string): Parsed {
  const types = new Map<string, string>();
  const helps = new Map<string, string>();
  const samples = new Map<string, string>();
  let current = '';
  assert.ok(text.endsWith('\n'));
  for (const line of text.split('\n')) {
    const [, kind, name = '', rest = ''] = /^# (HELP|TYPE) (\S+) (.*)$/.exec(line) ?? [];
    if (kind !== undefined) {
      const seen = kind === 'HELP' ? helps : types;
      assert.ok(!seen.has(name), `${kind} twice: ${name}`);
      seen.set(name, rest);
      current = name;
    } else if (line !== '') {
      const [, sample = '', labels = '', value = ''] = SAMPLE.exec(line) ?? [];
      assert.notEqual(sample, '', `not a sample: ${line}`);
      const family = types.get(current) === 'histogram' ? histogramBase(sample) : sample;
      assert.equal(family, current, `outside its family: ${line}`);
      assert.ok(!samples.has(sample + labels), `twice: ${sample}${labels}`);
      samples.set(sample + labels, value);
    }
  }
  return { types, helps, samples };
}

function histogramBase(sample: string): string {
  return sample.replace(/_(bucket|sum|count)$/, '');
}

function makeMetrics(): Metrics {
  const name = { upstreams: ['crm'], listeners: ['api'], principals: ['alice'] };
  return new Metrics({ ...name, version: '0.1.0' });
}

describe('the text for Prometheus', () => {
  test('obeys the format, with every family and the process under its usual names', async () => {
    const metrics = makeMetrics();
    const text = createMetricsText(metrics);
    assert.equal(text.contentType, 'text/plain; version=0.0.4; charset=utf-8');
    const { types, helps, samples } = parse(await text.render());
    for (const { name, kind, help } of metrics.families) {
      assert.equal(types.get(name), kind, name);
      assert.equal(helps.get(name), help, name);
    }
    assert.equal(types.get('process_cpu_seconds_total'), 'counter');
    assert.equal(types.get('nodejs_eventloop_lag_seconds'), 'gauge');
    const lease = 'sidekerb_pool_lease_requests_total{upstream="crm",result="hit"}';
    assert.equal(samples.get(lease), '0');
    const build = [...samples.keys()].find((key) => key.startsWith('sidekerb_build_info'));
    assert.match(String(build), /version="0\.1\.0",node="\d+\.\d+\.\d+",openssl="[^"]+"/);
    assert.equal(samples.get(String(build)), '1');
  });

  test('shows what was counted since, and asks parts with their own books', async () => {
    const metrics = makeMetrics();
    const text = createMetricsText(metrics);
    const hit = metrics.leaseRequests.child('crm', 'hit');
    metrics.onCollect(() => metrics.poolWaiters.child('crm').set(7));
    for (const expected of ['1', '2']) {
      hit.add();
      const { samples } = parse(await text.render());
      const lease = 'sidekerb_pool_lease_requests_total{upstream="crm",result="hit"}';
      assert.equal(samples.get(lease), expected);
      assert.equal(samples.get('sidekerb_pool_waiters{upstream="crm"}'), '7');
    }
  });

  test('has cumulative buckets that end in +Inf, which equals the count', async () => {
    const family = histogramFamily('t_seconds', 'T.', [0.1, 1], names('upstream'));
    for (const value of [0.05, 0.1, 0.5, 3]) family.child('crm').observe(value);
    const source = { families: [family], collect: () => undefined };
    const { samples } = parse(await createMetricsText(source).render());
    const shown = [...samples].filter(([key]) => key.startsWith('t_seconds'));
    assert.deepEqual(shown, [
      ['t_seconds_bucket{upstream="crm",le="0.1"}', '2'],
      ['t_seconds_bucket{upstream="crm",le="1"}', '3'],
      ['t_seconds_bucket{upstream="crm",le="+Inf"}', '4'],
      ['t_seconds_sum{upstream="crm"}', '3.65'],
      ['t_seconds_count{upstream="crm"}', '4'],
    ]);
  });

  test('escapes names of the configuration', async () => {
    const family = counterFamily('t_total', 'T.', names('upstream'));
    family.populate({ upstream: 'a"b\\c\nd' });
    const source = { families: [family], collect: () => undefined };
    const { samples } = parse(await createMetricsText(source).render());
    assert.equal(samples.get('t_total{upstream="a\\"b\\\\c\\nd"}'), '0');
  });
});
