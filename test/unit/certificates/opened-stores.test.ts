/** What is remembered of stores, and for how long. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { OpenedStores } from '../../../src/certificates/opened-stores.ts';
import { pkcs12Fault, type Pkcs12Fault } from '../../../src/certificates/pkcs12-fault.ts';
import type { StoreSource } from '../../../src/certificates/pkcs12-link.ts';
import type { OpenedStore } from '../../../src/certificates/pkcs12-opener.ts';
import { Secret } from '../../../src/identity/secret.ts';

const sourceOf = (bytes: string, word?: string): StoreSource => ({
  pkcs12: new Secret(Buffer.from(bytes)),
  passphrase: word === undefined ? undefined : new Secret(word),
});

class World {
  readonly opened: string[] = [];
  answer: (bytes: string) => OpenedStore | Pkcs12Fault = (bytes) => ({
    kind: 'opened',
    key: new Secret(bytes),
    certificates: [],
  });
  readonly stores = new OpenedStores({
    open: (source) => {
      const bytes = source.pkcs12.reveal().toString();
      this.opened.push(bytes);
      return Promise.resolve(this.answer(bytes));
    },
  });
}

describe('stores that were opened', () => {
  test('are opened once, and known at once', async () => {
    const { stores, opened } = new World();
    assert.equal(stores.get(sourceOf('a', 'x')), undefined);
    const first = await stores.open(sourceOf('a', 'x'));
    assert.equal(await stores.open(sourceOf('a', 'x')), first);
    assert.equal(stores.get(sourceOf('a', 'x')), first);
    assert.deepEqual(opened, ['a']);
  });

  test('are opened once for all who ask at the same time', async () => {
    const { stores, opened } = new World();
    const asked = [1, 2, 3].map(() => stores.open(sourceOf('a', 'x')));
    assert.equal(new Set(await Promise.all(asked)).size, 1);
    assert.deepEqual(opened, ['a']);
  });

  test('are others with other bytes or another passphrase', async () => {
    const { stores, opened } = new World();
    const others = [
      sourceOf('ab', 'c'),
      sourceOf('a', 'bc'),
      sourceOf('abc', ''),
      sourceOf('abc'),
      sourceOf('', 'abc'),
      // UTF-8 would make these two the same.
      sourceOf('abc', '\ud800'),
      sourceOf('abc', '\ud801'),
    ];
    for (const each of others) await stores.open(each);
    assert.equal(opened.length, others.length);
  });

  test('are forgotten when a load does not use them', async () => {
    const { stores, opened } = new World();
    for (const each of ['a', 'b']) await stores.open(sourceOf(each));
    stores.keepOnly([sourceOf('b'), sourceOf('never opened')]);
    assert.equal(stores.get(sourceOf('a')), undefined);
    assert.equal(stores.get(sourceOf('b'))?.kind, 'opened');
    await stores.open(sourceOf('a'));
    assert.deepEqual(opened, ['a', 'b', 'a']);
  });

  test('that are at fault are known too, save those that were not opened at all', async () => {
    const world = new World();
    world.answer = (bytes) =>
      pkcs12Fault(bytes === 'bad' ? 'no-key' : 'not-opened', 'in words of its own');
    for (const bytes of ['bad', 'bad', 'busy', 'busy']) await world.stores.open(sourceOf(bytes));
    assert.deepEqual(world.opened, ['bad', 'busy', 'busy']);
    assert.equal(world.stores.get(sourceOf('bad'))?.kind, 'fault');
    assert.equal(world.stores.get(sourceOf('busy')), undefined);
  });
});
