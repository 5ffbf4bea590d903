/**
 * The checks that wait for the thread. Turns go by where callers sit, and within one address by user
 * name of a realm. Room is bounded for each address and in all; where it ends, whoever takes most of it
 * gives way: a flood takes places from its own address, and there from its own name, only.
 */
import { Round } from './round.ts';

/** A claim of one address to one check. Several addresses may have places for the same check. */
export interface Place {
  /** `address-group.ts` says which callers share one. */
  readonly address: string;
  readonly turn: string;
}

export interface QueueLimits {
  readonly max: number;
  readonly maxPerAddress: number;
}

export class CheckQueue<P extends Place> {
  readonly #limits: QueueLimits;
  readonly #lines = new Round<AddressLine<P>>();
  #size = 0;

  constructor(limits: QueueLimits) {
    this.#limits = limits;
  }

  /**
   * Puts `place` at the end of its line. Answers who has no place for it: nobody, the last of the
   * address with the most waiting, or, where that is its own, the last of the name with the most
   * waiting, which may be `place` itself. An address of which nobody waits always gets its place.
   */
  add(place: P): P | undefined {
    const loser = this.#loserFor(place);
    if (loser === place) return place;
    if (loser !== undefined) this.#remove(loser);
    const line = this.#lines.get(place.address) ?? new AddressLine<P>();
    line.add(place);
    this.#lines.set(place.address, line);
    this.#size += 1;
    return loser;
  }

  /** The next one in turn. Whose turn it was last is now behind all who have come meanwhile. */
  take(): P | undefined {
    const next = this.#lines.first()?.first();
    if (next !== undefined) this.spend(next);
    return next;
  }

  /** Takes one out of its line because its check is made: its address and its name have had a turn. */
  spend(place: P): void {
    const line = this.#lines.get(place.address);
    if (line?.has(place) !== true) return;
    line.hadTurn(place.turn);
    this.#lines.hadTurn(place.address);
    this.#remove(place);
  }

  /** Takes one out of its line; nothing happens where it does not wait. */
  delete(place: P): void {
    if (this.#lines.get(place.address)?.has(place) === true) this.#remove(place);
  }

  #loserFor(place: P): P | undefined {
    const own = this.#lines.get(place.address);
    const size = own?.size ?? 0;
    if (size >= this.#limits.maxPerAddress) return own?.loserFor(place);
    if (this.#size < this.#limits.max) return undefined;
    const longest = this.#lines.largest();
    // Else equal addresses would push each other out in turns.
    if (size === 0 || size + 1 < (longest?.size ?? 0)) return longest?.last();
    return own?.loserFor(place);
  }

  #remove(place: P): void {
    const line = this.#lines.get(place.address);
    if (line === undefined) return;
    line.remove(place);
    this.#size -= 1;
    if (line.size === 0) this.#lines.leave(place.address);
  }
}

/** Places of one address, by turn and in order of arrival. */
class AddressLine<P extends Place> {
  readonly #turns = new Round<Turn<P>>();
  size = 0;

  add(place: P): void {
    const turn = this.#turns.get(place.turn) ?? new Turn<P>();
    turn.places.push(place);
    this.#turns.set(place.turn, turn);
    this.size += 1;
  }

  has(place: P): boolean {
    return this.#turns.get(place.turn)?.places.includes(place) === true;
  }

  first(): P | undefined {
    return this.#turns.first()?.places[0];
  }

  last(): P | undefined {
    return this.#turns.largest()?.places.at(-1);
  }

  /** Who gives way to `place`: itself, where its name would have as many as any other. */
  loserFor(place: P): P | undefined {
    const own = this.#turns.get(place.turn)?.size ?? 0;
    return own + 1 < (this.#turns.largest()?.size ?? 0) ? this.last() : place;
  }

  remove(place: P): void {
    const turn = this.#turns.get(place.turn);
    if (turn === undefined) return;
    turn.places.splice(turn.places.indexOf(place), 1);
    this.size -= 1;
    if (turn.size === 0) this.#turns.leave(place.turn);
  }

  hadTurn(turn: string): void {
    this.#turns.hadTurn(turn);
  }
}

class Turn<P> {
  readonly places: P[] = [];

  get size(): number {
    return this.places.length;
  }
}
