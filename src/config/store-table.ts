/**
 * PKCS#12 stores for a load that waits for nothing: what is open is used, what is not is noted, and the
 * load is made again once it is open.
 */
import type { OpenedStores } from '../certificates/opened-stores.ts';
import { type Pkcs12Fault, pkcs12Fault } from '../certificates/pkcs12-fault.ts';
import type { StoreSource } from '../certificates/pkcs12-link.ts';
import type { OpenedStore } from '../certificates/pkcs12-opener.ts';

export interface StoreTable {
  /** What is in a store, or why that is not known. */
  get(source: StoreSource): OpenedStore | Pkcs12Fault;
}

const NOT_OPENED = pkcs12Fault('not-opened', 'was not opened');

/** For who has nobody that opens stores. */
export const NO_STORES: StoreTable = { get: () => NOT_OPENED };

/** Files may change between two loads; whoever writes without end is not waited for. */
const MAX_LOADS = 5;

/**
 * The result of `load` with every store open that it asks for, and those stores. Loads again only after
 * some were opened. Rejects with what `load` throws.
 */
export async function loadWithStores<T>(
  stores: Pick<OpenedStores, 'get' | 'open'>,
  load: (table: StoreTable) => T,
): Promise<{ readonly result: T; readonly used: readonly StoreSource[] }> {
  // An opening that failed for reasons of its own is not kept by `stores`, and counts for this load.
  let refused: Pkcs12Fault | undefined;
  for (let loads = 1; ; loads += 1) {
    const used: StoreSource[] = [];
    const missing: StoreSource[] = [];
    const result = load({
      get: (source) => {
        used.push(source);
        const known = stores.get(source);
        if (known === undefined) missing.push(source);
        return known ?? refused ?? NOT_OPENED;
      },
    });
    if (missing.length === 0 || refused !== undefined || loads === MAX_LOADS)
      return { result, used };
    const answers = await Promise.all(missing.map((source) => stores.open(source)));
    refused = answers.find(
      (answer): answer is Pkcs12Fault => answer.kind === 'fault' && answer.reason === 'not-opened',
    );
  }
}
