/**
 * A map of bounded size, for what can be made again: the entry used longest ago goes first. The one
 * importer of `lru-cache`.
 */
import { LRUCache } from 'lru-cache';

export class BoundedMap<V extends string | object> {
  readonly #entries: LRUCache<string, V>;

  /** Keeps at most `max` entries; `left` is told of each that goes, in whatever way. */
  constructor(max: number, left?: (value: V) => void) {
    this.#entries = new LRUCache({ max, ...(left === undefined ? {} : { dispose: left }) });
  }

  find(key: string): V | undefined {
    return this.#entries.get(key);
  }

  keep(key: string, value: V): void {
    this.#entries.set(key, value);
  }

  forget(key: string): void {
    this.#entries.delete(key);
  }

  clear(): void {
    this.#entries.clear();
  }

  get size(): number {
    return this.#entries.size;
  }
}
