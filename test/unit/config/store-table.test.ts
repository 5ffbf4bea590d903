import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { type Pkcs12Fault, pkcs12Fault } from '../../../src/certificates/pkcs12-fault.ts';
import type { StoreSource } from '../../../src/certificates/pkcs12-link.ts';
import type { OpenedStore } from '../../../src/certificates/pkcs12-opener.ts';
import { loadWithStores, type StoreTable } from '../../../src/config/store-table.ts';
import { Secret } from '../../../src/identity/secret.ts';

const source = (text: string): StoreSource => ({
  pkcs12: new Secret(Buffer.from(text)),
  passphrase: undefined,
});

/** Stores that open to their own text; `late` never do, and are not kept. */
class Stores {
  readonly opened: string[] = [];
  readonly #known = new Map<string, OpenedStore | Pkcs12Fault>();

  get({ pkcs12 }: StoreSource): OpenedStore | Pkcs12Fault | undefined {
    return this.#known.get(String(pkcs12.reveal()));
  }

  open({ pkcs12 }: StoreSource): Promise<OpenedStore | Pkcs12Fault> {
    const text = String(pkcs12.reveal());
    this.opened.push(text);
    if (text === 'late') return Promise.resolve(pkcs12Fault('not-opened', 'took too long'));
    const answer: OpenedStore | Pkcs12Fault =
      text === 'bad'
        ? pkcs12Fault('damaged', 'is damaged')
        : { kind: 'opened', key: new Secret(text), certificates: [text] };
    this.#known.set(text, answer);
    return Promise.resolve(answer);
  }
}

const loading =
  (...names: readonly string[]) =>
  (table: StoreTable): string[] =>
    names.map((name) => {
      const found = table.get(source(name));
      return found.kind === 'fault' ? found.message : found.certificates.join();
    });

describe('a load with stores', () => {
  test('has each open before it ends, and opens none twice', async () => {
    const stores = new Stores();
    const { result, used } = await loadWithStores(stores, loading('a', 'b', 'bad'));
    assert.deepEqual(result, ['a', 'b', 'is damaged']);
    assert.equal(used.length, 3);
    await loadWithStores(stores, loading('b', 'c'));
    assert.deepEqual(stores.opened, ['a', 'b', 'bad', 'c']);
  });

  test('is one load where there is no store', async () => {
    let loads = 0;
    await loadWithStores(new Stores(), () => (loads += 1));
    assert.equal(loads, 1);
  });

  test('tells why one was not opened, and tries again at the next load', async () => {
    const stores = new Stores();
    for (const _ of [1, 2]) {
      const { result } = await loadWithStores(stores, loading('late'));
      assert.deepEqual(result, ['took too long']);
    }
    assert.deepEqual(stores.opened, ['late', 'late']);
  });

  test('does not wait for files that change without end', async () => {
    let content = 0;
    const { result } = await loadWithStores(new Stores(), (table) =>
      loading(String((content += 1)))(table),
    );
    assert.deepEqual(result, ['was not opened']);
  });
});
