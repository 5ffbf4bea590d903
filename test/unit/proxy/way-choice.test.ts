/** Which of several ways a request takes, and which one after a failure. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ProxyError } from '../../../src/errors.ts';
import { bestWay, joinWays } from '../../../src/proxy/ways.ts';
import type { RoutePlan } from '../../../src/relay/plan.ts';
import type { ParentHealth } from '../../../src/upstream/parent-health.ts';
import type { UpstreamTarget } from '../../../src/upstream/target.ts';

const FAILED = new ProxyError('connect-failed', 'nobody there', {
  side: 'upstream',
  stage: 'connect',
  retry: 'safe',
});

/** Plans by the names of their parents; `direct` has none. */
function world(...names: readonly string[]): {
  plan: RoutePlan;
  down: Set<string>;
  nameOf: (plan: RoutePlan | undefined) => string | undefined;
} {
  const down = new Set<string>();
  const health = {
    isUp: ({ name }: UpstreamTarget) => !down.has(name),
    failed: ({ name }: UpstreamTarget) => down.add(name),
  } as unknown as ParentHealth;
  const ways = names.map((name) => ({
    plan: { loggedPrincipal: name } as unknown as RoutePlan,
    parent: name === 'direct' ? undefined : ({ name } as unknown as UpstreamTarget),
  }));
  const nameOf = (plan: RoutePlan | undefined): string | undefined => plan?.loggedPrincipal;
  return { plan: joinWays(ways, health), down, nameOf };
}

test('the first parent that is not known to be down is taken, else the first', () => {
  const { plan, down, nameOf } = world('a', 'b', 'c');
  assert.equal(nameOf(bestWay(plan)), 'a');
  down.add('a');
  assert.equal(nameOf(bestWay(plan)), 'b');
  for (const name of ['b', 'c']) down.add(name);
  assert.equal(nameOf(bestWay(plan)), 'a');
});

test('after a failure those that are known to be down are passed over', () => {
  const { plan, down, nameOf } = world('a', 'b', 'direct');
  down.add('b');
  assert.equal(nameOf(plan.ways?.after(plan, FAILED)), 'direct');
  assert.ok(down.has('a'));
});

test('after a failure of all the next one is tried all the same, and then there is none', () => {
  const { plan, down, nameOf } = world('a', 'b');
  down.add('b');
  const next = plan.ways?.after(plan, FAILED);
  assert.equal(nameOf(next), 'b');
  assert.equal(next && plan.ways?.after(next, FAILED), undefined);
});

test('an answer of a parent counts: there is no other way', () => {
  const { plan, down } = world('a', 'direct');
  const refused = new ProxyError('parent-auth', 'no', { side: 'upstream', stage: 'tunnel' });
  assert.equal(plan.ways?.after(plan, refused), undefined);
  assert.equal(down.size, 0);
});

test('a single way knows no others', () => {
  const { plan } = world('a');
  assert.equal(plan.ways, undefined);
  assert.equal(bestWay(plan), plan);
});
