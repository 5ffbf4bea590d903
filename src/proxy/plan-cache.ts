/**
 * Plans that are kept for targets, per caller: the one used longest ago goes first (I12), and those of a
 * caller go with his identity, which holds what he proves himself with (R46).
 */
import type { Identity } from '../identity/identity.ts';
import { BoundedMap } from '../bounded-map.ts';
import type { HopIdentities } from './hop-identities.ts';

/** The plans of one caller. */
interface Own<V> {
  readonly id: number;
  readonly plans: Map<string, V>;
}

/** What the order of use is kept by; it keeps nothing of the caller alive. */
interface Token {
  readonly owner: WeakRef<Identity>;
  readonly key: string;
}

export class PlanCache<V extends object> {
  readonly #order: BoundedMap<Token>;
  readonly #own = new WeakMap<Identity, Own<V>>();
  #lastId = 0;

  /** Keeps at most `max` of all callers together. */
  constructor(max: number) {
    this.#order = new BoundedMap(max, ({ owner, key }) => {
      const self = owner.deref();
      if (self !== undefined) this.#own.get(self)?.plans.delete(key);
    });
  }

  /** The plans for `target` as written. */
  find(target: string, who: HopIdentities): V | undefined {
    const own = this.#own.get(who.self);
    const key = keyOf(target, who);
    const found = own?.plans.get(key);
    if (own !== undefined && found !== undefined) this.#order.find(`${own.id} ${key}`);
    return found;
  }

  keep(target: string, who: HopIdentities, plans: V): void {
    const own = this.#of(who.self);
    const key = keyOf(target, who);
    // First: whatever leaves may be what stood here.
    this.#order.keep(`${own.id} ${key}`, { owner: new WeakRef(who.self), key });
    own.plans.set(key, plans);
  }

  #of(self: Identity): Own<V> {
    const known = this.#own.get(self);
    if (known !== undefined) return known;
    this.#lastId += 1;
    const made = { id: this.#lastId, plans: new Map<string, V>() };
    this.#own.set(self, made);
    return made;
  }
}

/** No target has a space in it. */
const keyOf = (target: string, { key }: HopIdentities): string =>
  key === '' ? target : `${target} ${key}`;
