/**
 * The calls that wait for a helper: in order of arrival for each pair of principal and service, and
 * pair after pair in turn, so that a pair with many calls does not starve the others.
 */
import type { Verdict } from './admission.ts';
import type { Call } from './call.ts';
import type { KerberosInitiation } from './provider.ts';

type AnyCall = Call<KerberosInitiation>;

export class WaitingCalls {
  /** Settled calls leave when they are met. */
  readonly #queues = new Map<string, AnyCall[]>();
  #isServing = false;
  #isAskedAgain = false;

  get isEmpty(): boolean {
    return this.#queues.size === 0;
  }

  add(call: AnyCall): void {
    this.#queue(call).push(call);
  }

  /** For a call that was served once already. */
  addFirst(call: AnyCall): void {
    this.#queue(call).unshift(call);
  }

  /** Visits every call that waits now. */
  each(visit: (call: AnyCall) => void): void {
    for (const call of [...this.#queues.values()].flat()) if (!call.settled) visit(call);
  }

  /**
   * Offers the first call of each pair, and the next one as long as `offer` takes them. A call that
   * is offered while another offer is being judged is served right after it.
   */
  serve(offer: (call: AnyCall) => Verdict['kind']): void {
    if (this.#isServing) {
      this.#isAskedAgain = true;
      return;
    }
    this.#isServing = true;
    try {
      do {
        this.#isAskedAgain = false;
        this.#serveAll(offer);
      } while (this.#isAskedAgain);
    } finally {
      this.#isServing = false;
    }
  }

  #serveAll(offer: (call: AnyCall) => Verdict['kind']): void {
    // A copy: a pair that goes to the end must not be met again.
    const pairs = Array.from(this.#queues);
    for (const [pair, queue] of pairs) {
      const before = queue.length;
      const verdict = serveQueue(queue, offer);
      const isFull = verdict === 'full';
      // Who had a turn goes to the end; who met a full helper keeps its place.
      if (queue.length < before || !isFull) {
        this.#queues.delete(pair);
        if (queue.length > 0) this.#queues.set(pair, queue);
      }
      if (isFull) return;
    }
  }

  #queue(call: AnyCall): AnyCall[] {
    const known = this.#queues.get(call.pair);
    if (known !== undefined) return known;
    const queue: AnyCall[] = [];
    this.#queues.set(call.pair, queue);
    return queue;
  }
}

/** The verdict that ended the serving; undefined when the queue was served to its end. */
function serveQueue(
  queue: AnyCall[],
  offer: (call: AnyCall) => Verdict['kind'],
): 'wait' | 'full' | undefined {
  for (let call = queue[0]; call !== undefined; call = queue[0]) {
    if (call.settled) {
      queue.shift();
      continue;
    }
    // Taken out first: what the offer starts may look at the queue.
    queue.shift();
    const verdict = offer(call);
    if (verdict !== 'wait' && verdict !== 'full') continue;
    queue.unshift(call);
    return verdict;
  }
  return undefined;
}
