/**
 * Which partitions exist: one per key, at most so many in all. When there is no room, the partition
 * whose last use is longest ago goes first, unless it is at work. Retiring is done by the pool.
 */
import type { PooledConnection } from './connection.ts';
import { IntrusiveList } from './intrusive-list.ts';
import type { Partition } from './partition.ts';
import type { PartitionKey } from './partition-key.ts';

export class PartitionTable<C extends PooledConnection, R> {
  readonly #max: number;
  readonly #byKey = new Map<PartitionKey, Partition<C, R>>();
  /** Retired ones that may have connections or openings left. */
  readonly #retiring = new Set<Partition<C, R>>();
  readonly #byUse = new IntrusiveList<Partition<C, R>>();

  constructor(max: number) {
    this.#max = max;
  }

  get isEmpty(): boolean {
    return this.#byKey.size === 0;
  }

  get isFull(): boolean {
    return this.#byKey.size >= this.#max;
  }

  find(key: PartitionKey): Partition<C, R> | undefined {
    return this.#byKey.get(key);
  }

  /** A copy, so that its reader may retire partitions on the way. */
  all(): Partition<C, R>[] {
    return [...this.#byKey.values()];
  }

  /** Retired partitions that something still runs in. */
  retiring(): Partition<C, R>[] {
    for (const partition of this.#retiring) {
      if (partition.entries.size + partition.openings.size === 0) this.#retiring.delete(partition);
    }
    return [...this.#retiring];
  }

  /** The partition to retire when room is needed; undefined when all are at work. */
  leastRecentlyUsedQuiet(): Partition<C, R> | undefined {
    let partition = this.#byUse.first;
    while (partition !== undefined && !partition.quiet) partition = partition.next;
    return partition;
  }

  /** Those without a connection whose last use was before `time`, clock ms. */
  unusedSince(time: number): Partition<C, R>[] {
    const unused: Partition<C, R>[] = [];
    let partition = this.#byUse.first;
    while (partition !== undefined && partition.usedAt < time) {
      if (partition.quiet && partition.entries.size === 0) unused.push(partition);
      partition = partition.next;
    }
    return unused;
  }

  /** Adds a partition whose key is not in the table. */
  add(partition: Partition<C, R>, now: number): void {
    const { books } = partition;
    partition.usedAt = now;
    this.#byKey.set(partition.key, partition);
    this.#byUse.push(partition);
    partition.admitted = true;
    books.partitions += 1;
    if (partition.holder.kind === 'none') return;
    partition.group = books.group(partition.holderDigest);
    partition.group.partitions += 1;
  }

  /** Takes an admitted partition out; it is listed as retiring while something runs in it. */
  remove(partition: Partition<C, R>): void {
    // Keeps the list as short as what runs, whether or not anybody asks for it.
    this.retiring();
    this.#retiring.add(partition);
    const { books, group } = partition;
    this.#byKey.delete(partition.key);
    this.#byUse.remove(partition);
    partition.admitted = false;
    books.partitions -= 1;
    if (group === undefined) return;
    group.partitions -= 1;
    books.dropIfEmpty(group);
  }

  /** Marks an admitted partition as used last. */
  touch(partition: Partition<C, R>, now: number): void {
    partition.usedAt = now;
    if (this.#byUse.last === partition) return;
    this.#byUse.remove(partition);
    this.#byUse.push(partition);
  }
}
