/** Many callers of all kinds through a parent that forgets, closes and stalls: nothing mixed, nothing left. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { CutShort } from '../support/strict-http.ts';
import { until } from '../support/waiting.ts';
import { marks, type ParentWorld, startParent } from './parent-world.ts';

/** A sequence that looks like chance and is the same each time. */
function chance(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (Math.imul(state, 1103515245) + 12345) & 0x7fffffff;
    return Math.floor((state / 0x80000000) * below);
  };
}

const LISTENERS = {
  egress: { atParent: 'pat', atOrigin: undefined },
  both: { atParent: 'pat', atOrigin: 'alice' },
  second: { atParent: 'eve', atOrigin: undefined },
} as const;

type Listener = keyof typeof LISTENERS;

const NAMES = Object.keys(LISTENERS) as Listener[];

/** One request, on a connection of its own; the caller may leave at any time. */
async function once(world: ParentWorld, pick: (below: number) => number, n: string): Promise<void> {
  const listener = NAMES[pick(3)] ?? 'egress';
  const { atParent, atOrigin } = LISTENERS[listener];
  const host = listener === 'both' ? 'app.test' : 'other.test';
  await using client = await world.daemon.connect(listener);
  const leaves = pick(8) === 0;
  const kind = pick(3);
  if (kind === 2) {
    await client.request('CONNECT other.test:443', { Host: 'other.test:443' });
    if (leaves) return;
    if ((await client.head()).status !== 200) return;
    await client.request(`GET /open/${n}`, { Host: 'other.test' });
  } else {
    const path = listener === 'both' ? `/in/${n}` : `/open/${n}`;
    const body = kind === 1 ? 'x'.repeat(pick(90_000)) : '';
    const fields = { Host: host, ...marks(atParent, atOrigin) };
    const framed = kind === 1 ? { 'Content-Length': String(body.length) } : {};
    const method = kind === 1 ? 'POST' : 'GET';
    await client.request(`${method} http://${host}${path}`, { ...fields, ...framed }, body);
  }
  if (leaves) {
    for (let turns = pick(40); turns > 0; turns -= 1) await nextTurn();
    return;
  }
  const answer = await client.response().catch((error: unknown) => {
    if (error instanceof CutShort || (error as { code?: string }).code === 'ECONNRESET') return;
    throw error;
  });
  assert.ok(answer === undefined || answer.status < 500 || answer.status >= 502);
}

for (const seed of [1, 2, 3]) {
  test(`R1 R7 R33 R45 I11 chance ${seed}: no identity is crossed, no permit is lost`, async () => {
    const pick = chance(seed);
    await using world = await startParent({
      parent: { forgetAfter: 7, idle: { closeAfter: 11 } },
      origin: { scheme: 'ntlm', open: ({ target }) => target.startsWith('/open/'), forgetAfter: 9 },
      upstreams: {
        app: `{ url: 'http://app.test', auth: { principal: alice, schemes: [ntlm] } }`,
        other: `{ proxy: '$parent', auth: { principal: eve, schemes: [ntlm] } }`,
      },
      listeners: [
        '{ name: both, listen: 127.0.0.1:0, mode: forward, via: [corp], origins: [app] }',
        '{ name: second, listen: 127.0.0.1:0, mode: forward, via: [other] }',
      ],
    });
    for (let round = 0; round < 6; round += 1) {
      const work = Array.from({ length: 24 }, (_, n) => once(world, pick, `${round}-${n}`));
      for (let turns = pick(60); turns > 0; turns -= 1) await nextTurn();
      if (round % 3 === 1) world.parent.drop(round % 2 === 0 ? 'fin' : 'reset');
      if (round % 3 === 2) await world.daemon.admin('POST /api/principals/pat/flush');
      await Promise.all(work);
    }
    // Executed at most once, each.
    const posts = world.origin.requests.filter(
      ({ method, status, bodyComplete }) => method === 'POST' && status === 200 && bodyComplete,
    );
    assert.equal(new Set(posts.map(({ target }) => target)).size, posts.length);
    assert.ok(posts.length > 10);
    // Nothing is in use, and what is idle at one end is open at the other.
    const metrics = await world.daemon.measured(
      (all) =>
        all.sum('sidekerb_upstream_connections', { state: 'in_use' }) === 0 &&
        all.sum('sidekerb_upstream_connections', { state: 'handshaking' }) === 0 &&
        all.sum('sidekerb_downstream_connections') === 0,
      'nothing in use',
    );
    const idle = metrics.sum('sidekerb_upstream_connections');
    await until(() => world.parent.openSockets === idle, 'no other socket is open at the parent');
    assert.equal(metrics.sum('sidekerb_guard_state'), 0);
    assert.equal(metrics.sum('sidekerb_invariant_violations_total'), 0);
    // And all goes on.
    const after = await world.ask('GET http://app.test/in/z', marks('pat', 'alice'), '', 'both');
    assert.equal(after.status, 200);
  });
}
