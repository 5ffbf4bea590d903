/** What makes a request go another way, and what does not. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type ErrorCode, ProxyError, type ErrorFacts } from '../../../src/errors.ts';
import { noLog } from '../../../src/log/log.ts';
import { joinWays } from '../../../src/proxy/ways.ts';
import type { RoutePlan } from '../../../src/relay/plan.ts';
import { ParentHealth } from '../../../src/upstream/parent-health.ts';
import type { UpstreamTarget } from '../../../src/upstream/target.ts';
import { FakeClock } from '../../support/fake-clock.ts';

const PARENT = { name: 'corp' } as UpstreamTarget;

/** By the parent, then directly. */
function ways(): { readonly plan: RoutePlan; readonly health: ParentHealth } {
  const health = new ParentHealth({
    deadlines: new FakeClock().deadlines,
    log: noLog,
    tryDial: () => Promise.resolve(),
  });
  const plan = (name: string): RoutePlan => ({ loggedPrincipal: name }) as RoutePlan;
  const list = [
    { plan: plan('by the parent'), parent: PARENT },
    { plan: plan('directly'), parent: undefined },
  ];
  return { plan: joinWays(list, health), health };
}

const error = (code: ErrorCode, facts: ErrorFacts): ProxyError => new ProxyError(code, 'x', facts);

test('a parent that cannot be connected to is left, by whoever comes next too', () => {
  const { plan, health } = ways();
  const facts = { side: 'upstream', stage: 'connect', retry: 'safe' } as const;
  const next = plan.ways?.after(plan, error('connect-failed', facts));
  assert.equal(next?.loggedPrincipal, 'directly');
  assert.equal(health.isUp(PARENT), false);
  assert.equal(plan.ways?.best(), next);
});

test('what the pool says of itself is no word on the parent: nobody goes around it', () => {
  const { plan, health } = ways();
  const facts = { side: 'internal', stage: 'connect', retry: 'safe' } as const;
  assert.equal(plan.ways?.after(plan, error('upstream-closed', facts)), undefined);
  assert.equal(health.isUp(PARENT), true);
  assert.equal(plan.ways?.best(), plan);
});
