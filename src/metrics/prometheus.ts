/**
 * Turns the families into Prometheus' text format, beside the process's own metrics.
 *
 * The one importer of prom-client. Values are read when a scrape asks for them, so nothing here
 * runs on a hot path. What is measured stands in `metrics.ts`.
 */
import { type Gauge as PromMetric, Registry, collectDefaultMetrics } from 'prom-client';
import { Counter, type Family, Gauge, Histogram, type Instrument } from './instruments.ts';

/** What `/metrics` answers with. */
export interface MetricsText {
  readonly contentType: string;
  /** All metrics as they stand now. Two renders may run at once. */
  render(): Promise<string>;
}

/** One line of the answer in prom-client's terms. */
interface Sample {
  readonly labels: Record<string, string>;
  readonly value: number;
  readonly metricName: string;
}

/** A registry of its own with these families and the process's metrics under their usual names. */
export function createMetricsText(source: {
  readonly families: readonly Family<Instrument>[];
  collect(): void;
}): MetricsText {
  const registry = new Registry();
  // Two samples of the event loop's delay in each 100 ms instead of ten: the timer costs CPU time
  // on an idle daemon, and delays that matter last longer.
  collectDefaultMetrics({ register: registry, eventLoopMonitoringPrecision: 50 });
  for (const family of source.families) registry.registerMetric(asMetric(family));
  return {
    contentType: registry.contentType,
    render: () => {
      source.collect();
      return registry.metrics();
    },
  };
}

// The registry calls nothing but `name` and `get()` of what is registered; its type asks for one of
// prom-client's own classes, which would keep every number a second time.
function asMetric(family: Family<Instrument>): PromMetric {
  const metric = {
    name: family.name,
    get: () =>
      Promise.resolve({
        name: family.name,
        help: family.help,
        type: family.kind,
        values: [...samples(family)],
      }),
  };
  return metric as unknown as PromMetric;
}

function* samples(family: Family<Instrument>): Generator<Sample> {
  for (const { values, instrument } of family.entries()) {
    const labels: Record<string, string> = {};
    for (const [at, label] of family.labels.entries()) labels[label.name] = values[at] ?? '';
    if (instrument instanceof Counter || instrument instanceof Gauge) {
      yield { labels, value: instrument.value, metricName: family.name };
    } else if (instrument instanceof Histogram) {
      yield* histogramSamples(family.name, labels, instrument);
    } else {
      instrument satisfies never;
    }
  }
}

function* histogramSamples(
  name: string,
  labels: Record<string, string>,
  histogram: Histogram,
): Generator<Sample> {
  let below = 0;
  for (const [at, count] of histogram.counts.entries()) {
    below += count;
    const bound = histogram.bounds[at];
    const le = bound === undefined ? '+Inf' : String(bound);
    yield { labels: { ...labels, le }, value: below, metricName: `${name}_bucket` };
  }
  yield { labels, value: histogram.sum, metricName: `${name}_sum` };
  yield { labels, value: histogram.count, metricName: `${name}_count` };
}
