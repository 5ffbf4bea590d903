/**
 * The checks that wait for the thread: in order of arrival within a turn (one user name of one realm),
 * and turn after turn. Room is bounded; where it ends, the longest line gives way, so that a flood for
 * one name takes places from that name only.
 */

export interface Queued {
  readonly turn: string;
}

export class CheckQueue<T extends Queued> {
  readonly #max: number;
  /** In the order in which their turn comes; never an empty line. */
  readonly #lines = new Map<string, T[]>();
  #size = 0;
  /** Whose turn it was last. */
  #latest: string | undefined;

  constructor(max: number) {
    this.#max = max;
  }

  /**
   * Puts `item` at the end of its line. Answers who has no place for it: nobody, the newest of the
   * longest line, or `item` itself where its line would become the longest.
   */
  add(item: T): T | undefined {
    let loser: T | undefined;
    if (this.#size >= this.#max) {
      const longest = this.#longest();
      const own = this.#lines.get(item.turn)?.length ?? 0;
      const last = longest?.at(-1);
      if (longest === undefined || last === undefined || own + 1 >= longest.length) return item;
      this.delete(last);
      loser = last;
    }
    this.#size += 1;
    const line = this.#lines.get(item.turn);
    if (line === undefined) this.#lines.set(item.turn, [item]);
    else line.push(item);
    return loser;
  }

  /** The next one in turn. Whose turn it was last is now behind all who have come meanwhile. */
  take(): T | undefined {
    this.#sendBack(this.#latest);
    const [next] = this.#lines;
    if (next === undefined) return undefined;
    const [turn, line] = next;
    this.#latest = turn;
    const item = line.shift();
    this.#size -= 1;
    if (line.length === 0) this.#lines.delete(turn);
    return item;
  }

  /** Takes one out of its line; nothing happens where it does not wait. */
  delete(item: T): void {
    const line = this.#lines.get(item.turn);
    const at = line?.indexOf(item) ?? -1;
    if (line === undefined || at < 0) return;
    line.splice(at, 1);
    this.#size -= 1;
    if (line.length === 0) this.#lines.delete(item.turn);
  }

  #sendBack(turn: string | undefined): void {
    const line = turn === undefined ? undefined : this.#lines.get(turn);
    if (turn === undefined || line === undefined) return;
    this.#lines.delete(turn);
    this.#lines.set(turn, line);
  }

  #longest(): T[] | undefined {
    let longest: T[] | undefined;
    for (const line of this.#lines.values()) {
      if (line.length > (longest?.length ?? 0)) longest = line;
    }
    return longest;
  }
}
