/**
 * Counters, gauges, histograms and the families that own them: plain numbers, no package.
 *
 * Decides how a series is found, kept and removed. What is measured stands in `metrics.ts`; how it
 * looks on the wire, in `prometheus.ts`. A hot path asks for its child once and keeps it.
 */

/** A number that only grows, until the process ends. */
export class Counter {
  value = 0;

  /** Adds `n`, which is never negative. */
  add(n = 1): void {
    this.value += n;
  }
}

/** A number that goes up and down. */
export class Gauge {
  value = 0;

  set(n: number): void {
    this.value = n;
  }

  add(n = 1): void {
    this.value += n;
  }
}

/** Observations counted by fixed upper bounds, with their sum and number. */
export class Histogram {
  /** Upper bounds, ascending, inclusive; the last bucket (+Inf) has none. */
  readonly bounds: Float64Array;
  /** Observations per bucket, not cumulative; one longer than `bounds`. */
  readonly counts: Float64Array;
  sum = 0;
  count = 0;

  constructor(bounds: readonly number[]) {
    this.bounds = Float64Array.from(bounds);
    this.counts = new Float64Array(bounds.length + 1);
  }

  /** Counts one observation, in the unit of the family's name. Anything below 0 and NaN is dropped. */
  observe(value: number): void {
    // A NaN would make the sum useless for the life of the process.
    if (!(value >= 0)) return;
    // Most observations fall into the first buckets, and there are few: a scan beats a bisection.
    let bucket = 0;
    while (value > (this.bounds[bucket] ?? Infinity)) bucket += 1;
    this.counts[bucket] = (this.counts[bucket] ?? 0) + 1;
    this.sum += value;
    this.count += 1;
  }
}

export type Instrument = Counter | Gauge | Histogram;
export type InstrumentKind = 'counter' | 'gauge' | 'histogram';

/** A label and its words; without words its values are configured names, known at run time. */
export interface Label<W extends string = string> {
  readonly name: string;
  readonly words: readonly W[] | undefined;
}

/** A label with a closed set of words. */
export function words<const W extends string>(name: string, list: readonly W[]): Label<W> {
  return { name, words: list };
}

/** A label whose values are names of the configuration, never anything a caller sends. */
export function names(name: string): Label {
  return { name, words: undefined };
}

/** The argument list of `child`: one value per label, in order. */
export type LabelValues<L extends readonly Label[]> = {
  readonly [K in keyof L]: L[K] extends Label<infer W> ? W : never;
};

/** One series of a family. */
export interface Series<T> {
  readonly values: readonly string[];
  readonly instrument: T;
}

/**
 * A metric with its series, one per combination of label values. A family without open labels has
 * all of them, at 0, from the start; the others get theirs by `populate`.
 */
export class Family<T extends Instrument, V extends readonly string[] = readonly string[]> {
  readonly kind: InstrumentKind;
  readonly name: string;
  readonly help: string;
  readonly labels: readonly Label[];
  readonly #make: () => T;
  readonly #series = new Map<string, Series<T>>();

  constructor(
    kind: InstrumentKind,
    name: string,
    help: string,
    labels: readonly Label[],
    options: { readonly make: () => T },
  ) {
    this.kind = kind;
    this.name = name;
    this.help = help;
    this.labels = labels;
    this.#make = options.make;
    this.populate({});
  }

  /**
   * The series of these label values, interned, made at 0 if new. Not for a hot path: keep it.
   * Throws TypeError for a word outside a closed set or a wrong number of values.
   */
  child(...values: V): T {
    const key = seriesKey(values);
    const known = this.#series.get(key);
    if (known !== undefined) return known.instrument;
    this.#check(values);
    const made = this.#make();
    this.#series.set(key, { values: [...values], instrument: made });
    return made;
  }

  /** Makes every combination of closed words with these names, if they cover all open labels. */
  populate(fixed: Readonly<Record<string, string>>): void {
    let combinations: string[][] = [[]];
    for (const label of this.labels) {
      const name = fixed[label.name];
      const choices = name === undefined ? label.words : [name];
      if (choices === undefined) return;
      combinations = combinations.flatMap((head) => choices.map((choice) => [...head, choice]));
    }
    for (const values of combinations) this.#intern(values);
  }

  /** Forgets one series. A child that is still held goes on counting and is no longer shown. */
  remove(...values: V): void {
    this.#series.delete(seriesKey(values));
  }

  /** Forgets every series whose `label` has this value. */
  removeWhere(label: string, value: string): void {
    const at = this.labels.findIndex((candidate) => candidate.name === label);
    if (at < 0) return;
    for (const [key, series] of this.#series) {
      if (series.values[at] === value) this.#series.delete(key);
    }
  }

  /** All series, in the order in which they were made. */
  entries(): IterableIterator<Series<T>> {
    return this.#series.values();
  }

  #intern(values: readonly string[]): void {
    const key = seriesKey(values);
    if (this.#series.has(key)) return;
    this.#check(values);
    this.#series.set(key, { values, instrument: this.#make() });
  }

  #check(values: readonly string[]): void {
    if (values.length !== this.labels.length) {
      throw new TypeError(`${this.name} takes ${this.labels.length} label values`);
    }
    for (const [at, label] of this.labels.entries()) {
      if (label.words !== undefined && !label.words.includes(values[at] ?? '')) {
        throw new TypeError(`${this.name}: not a word of its label ${label.name}`);
      }
    }
  }
}

/** A counter family; the name ends in `_total`. */
export function counterFamily<const L extends readonly Label[]>(
  name: string,
  help: string,
  ...labels: L
): Family<Counter, LabelValues<L>> {
  return new Family('counter', name, help, labels, { make: () => new Counter() });
}

/** A gauge family. */
export function gaugeFamily<const L extends readonly Label[]>(
  name: string,
  help: string,
  ...labels: L
): Family<Gauge, LabelValues<L>> {
  return new Family('gauge', name, help, labels, { make: () => new Gauge() });
}

/** A histogram family over these upper bounds, ascending, in the unit of the name. */
export function histogramFamily<const L extends readonly Label[]>(
  name: string,
  help: string,
  bounds: readonly number[],
  ...labels: L
): Family<Histogram, LabelValues<L>> {
  return new Family('histogram', name, help, labels, { make: () => new Histogram(bounds) });
}

// Lengths first, so that no two lists of values share a key.
function seriesKey(values: readonly string[]): string {
  let key = '';
  for (const value of values) key += `${value.length}:${value}`;
  return key;
}
