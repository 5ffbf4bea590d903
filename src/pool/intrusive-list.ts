/**
 * An ordered list whose nodes carry their own links: adding, taking from the front and removing from
 * the middle cost the same and allocate nothing. A node is in one list at a time.
 */

/** What a node carries; written by the list only. */
export interface Links<T> {
  previous: T | undefined;
  next: T | undefined;
}

/** Oldest first. */
export class IntrusiveList<T extends Links<T>> {
  #first: T | undefined = undefined;
  #last: T | undefined = undefined;
  #size = 0;

  get first(): T | undefined {
    return this.#first;
  }

  get last(): T | undefined {
    return this.#last;
  }

  get size(): number {
    return this.#size;
  }

  /** Adds a node that is in no list, at the end. */
  push(node: T): void {
    const last = this.#last;
    node.previous = last;
    if (last === undefined) this.#first = node;
    else last.next = node;
    this.#last = node;
    this.#size += 1;
  }

  /** Takes out a node of this list. */
  remove(node: T): void {
    const { previous, next } = node;
    if (previous === undefined) this.#first = next;
    else previous.next = next;
    if (next === undefined) this.#last = previous;
    else next.previous = previous;
    node.previous = undefined;
    node.next = undefined;
    this.#size -= 1;
  }
}
