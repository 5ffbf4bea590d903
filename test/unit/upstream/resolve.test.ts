/** Lookups of forward targets: shared, few at once, bounded, and of the system's errors one code. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { Resolver } from '../../../src/upstream/resolve.ts';
import type { ResolvedAddress } from '../../../src/upstream/target.ts';

const FOUND: readonly ResolvedAddress[] = [{ address: '192.0.2.1', family: 4 }];

/** A lookup that a test answers by hand, in the order of its calls. */
function byHand(): {
  readonly asked: string[];
  readonly answers: PromiseWithResolvers<readonly ResolvedAddress[]>[];
  readonly resolver: Resolver;
} {
  const asked: string[] = [];
  const answers: PromiseWithResolvers<readonly ResolvedAddress[]>[] = [];
  const resolver = new Resolver((host) => {
    asked.push(host);
    const answer = Promise.withResolvers<readonly ResolvedAddress[]>();
    answers.push(answer);
    return answer.promise;
  });
  return { asked, answers, resolver };
}

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

describe('a resolver', () => {
  test('asks nobody for a literal', async () => {
    const { asked, resolver } = byHand();
    assert.deepEqual(await resolver.resolve('10.0.0.1'), [{ address: '10.0.0.1', family: 4 }]);
    assert.deepEqual(await resolver.resolve('::1'), [{ address: '::1', family: 6 }]);
    assert.deepEqual(asked, []);
  });

  test('asks once for requests at the same time, and again for later ones', async () => {
    const { asked, answers, resolver } = byHand();
    const both = [resolver.resolve('a'), resolver.resolve('a')];
    answers[0]?.resolve(FOUND);
    assert.deepEqual(await Promise.all(both), [FOUND, FOUND]);
    const later = resolver.resolve('a');
    answers[1]?.resolve(FOUND);
    await later;
    assert.deepEqual(asked, ['a', 'a']);
  });

  test('has three lookups at once; the next one begins when one ends, however it ends', async () => {
    const { asked, answers, resolver } = byHand();
    const all = ['a', 'b', 'c', 'd', 'e'].map((host) => resolver.resolve(host));
    await turn();
    assert.deepEqual(asked, ['a', 'b', 'c']);
    answers[1]?.reject(new Error('no such name'));
    await assert.rejects(all[1] ?? Promise.resolve());
    await turn();
    assert.deepEqual(asked, ['a', 'b', 'c', 'd']);
    for (const index of [0, 2, 3]) answers[index]?.resolve(FOUND);
    await turn();
    answers[4]?.resolve(FOUND);
    await Promise.all([all[0], all[2], all[3], all[4]]);
    // The places are free again.
    const more = ['f', 'g', 'h', 'i'].map((host) => resolver.resolve(host));
    await turn();
    assert.deepEqual(asked.slice(5), ['f', 'g', 'h']);
    for (const answer of answers.slice(5)) answer.resolve(FOUND);
    await turn();
    answers.at(-1)?.resolve(FOUND);
    await Promise.all(more);
  });

  test('refuses more than it can remember (I12)', async () => {
    const { resolver } = byHand();
    for (let nth = 0; nth < 3 + 1024; nth += 1) void resolver.resolve(`host${nth}`);
    await turn();
    await assert.rejects(resolver.resolve('one more'), { code: 'connect-failed', retry: 'safe' });
  });

  test('has one code for names that lead nowhere', async () => {
    const none = new Resolver(() => Promise.resolve([]));
    await assert.rejects(none.resolve('a'), { code: 'connect-failed', message: /no address/ });
    const cause = Object.assign(new Error('x'), { code: 'ENOTFOUND' });
    const broken = new Resolver(() => Promise.reject(cause));
    await assert.rejects(broken.resolve('a'), { code: 'connect-failed', cause });
  });

  test('finds localhost on this machine by itself', async () => {
    const found = await new Resolver().resolve('localhost');
    assert.ok(found.some(({ address }) => address === '127.0.0.1' || address === '::1'));
  });
});
