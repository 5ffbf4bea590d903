/**
 * Who may open one more connection: counts permits per upstream, per principal and in all, and says
 * whether one is free or can be made free by closing an idle connection (R44). A permit is taken
 * when an opening begins and given back when it fails or its connection closes (R45).
 */
import type { PooledConnection } from './connection.ts';
import type { Entry, Partition } from './partition.ts';
import type { UpstreamBooks } from './upstream-books.ts';

export class Permits<C extends PooledConnection, R> {
  readonly #max: number;
  readonly #upstreams: ReadonlyMap<string, UpstreamBooks<Entry<C, R>>>;
  #used = 0;

  constructor(max: number, upstreams: ReadonlyMap<string, UpstreamBooks<Entry<C, R>>>) {
    this.#max = max;
    this.#upstreams = upstreams;
  }

  /** Permits in use, over all upstreams. */
  get used(): number {
    return this.#used;
  }

  take(partition: Partition<C, R>): void {
    this.#used += 1;
    partition.books.connections += 1;
    if (partition.group !== undefined) partition.group.connections += 1;
  }

  giveBack(partition: Partition<C, R>): void {
    this.#used -= 1;
    const { books, group } = partition;
    books.connections -= 1;
    if (group === undefined) return;
    group.connections -= 1;
    books.dropIfEmpty(group);
  }

  /**
   * What stands between `partition` and a permit: nothing, one idle connection that would have to
   * close, or connections that are in use.
   */
  obstacle(partition: Partition<C, R>): Entry<C, R> | 'none' | 'in-use' {
    const { books, group } = partition;
    const { maxConnections, maxPerPrincipal } = books.limits;
    // The narrowest limit first: a connection closed for it makes room under the wider ones too. One
    // is enough: where a limit is exceeded, because it was lowered, `Shelf` keeps nothing idle.
    if (group !== undefined && group.connections >= maxPerPrincipal) {
      return this.#leastRecentlyUsedOf(books, partition) ?? 'in-use';
    }
    if (books.connections >= maxConnections) return books.idle.first ?? 'in-use';
    if (this.#used >= this.#max) return this.#leastRecentlyUsed() ?? 'in-use';
    return 'none';
  }

  /** Off the hot path: at most `maxIdle` steps. */
  #leastRecentlyUsedOf(
    books: UpstreamBooks<Entry<C, R>>,
    partition: Partition<C, R>,
  ): Entry<C, R> | undefined {
    let entry = books.idle.first;
    while (entry !== undefined && entry.partition.group !== partition.group) entry = entry.next;
    return entry;
  }

  #leastRecentlyUsed(): Entry<C, R> | undefined {
    let oldest: Entry<C, R> | undefined;
    for (const { idle } of this.#upstreams.values()) {
      const { first } = idle;
      if (first === undefined) continue;
      if (oldest === undefined || first.lastUse < oldest.lastUse) oldest = first;
    }
    return oldest;
  }
}
