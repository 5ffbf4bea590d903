/** Lines that take turns, and which of them is the longest. */

/** In the order in which their turn comes. */
export class Round<L extends { readonly size: number }> {
  readonly #lines = new Map<string, L>();
  /** Whose turn it was: they go behind all who come before the next is looked for. */
  readonly #served = new Set<string>();

  get(key: string): L | undefined {
    return this.#lines.get(key);
  }

  /** A new one is last in turn. */
  set(key: string, line: L): void {
    this.#lines.set(key, line);
  }

  /** Forgets a line that is empty now, unless it is to be remembered that it had its turn. */
  leave(key: string): void {
    if (!this.#served.has(key)) this.#lines.delete(key);
  }

  hadTurn(key: string): void {
    this.#served.add(key);
  }

  first(): L | undefined {
    for (const key of this.#served) {
      const line = this.#lines.get(key);
      if (line === undefined) continue;
      this.#lines.delete(key);
      if (line.size > 0) this.#lines.set(key, line);
    }
    this.#served.clear();
    const [first] = this.#lines.values();
    return first;
  }

  /** The last in turn of those that are equal. */
  largest(): L | undefined {
    let largest: L | undefined;
    for (const line of this.#lines.values()) {
      if (line.size >= (largest?.size ?? 0)) largest = line;
    }
    return largest;
  }
}
