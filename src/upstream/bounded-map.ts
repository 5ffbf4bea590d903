/**
 * A map of bounded size, for what can be made again: the entry used longest ago goes first. The one
 * importer of `lru-cache`.
 */
import { LRUCache } from 'lru-cache';

export class BoundedMap<V extends object> {
  readonly #entries: LRUCache<string, V>;

  /** Keeps at most `max` entries. */
  constructor(max: number) {
    this.#entries = new LRUCache({ max });
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

  get size(): number {
    return this.#entries.size;
  }
}
