/**
 * Callers that log in to an intranet origin by themselves, with NTLM, through the daemon: straight, and
 * through parents at which the daemon logs in. Nobody gets another's connection.
 */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { suite, test } from 'node:test';
import { runClient } from '../support/client-programs.ts';
import { LAB_USERS, PYTHON } from './components.ts';
import { FORWARD_WAYS, startForwardLab, useForwardLab } from './forward-lab.ts';
import { labCurl } from './lab-curl.ts';
import { requireCommand } from './requires.ts';
import { REQUESTS_NTLM } from './requests-ntlm.ts';

const CALLERS = 20;
const REQUESTS = 3;
const ACCOUNTS = [
  { user: 'LAB\\alice', password: LAB_USERS.alice },
  { user: 'LAB\\bob', password: LAB_USERS.bob },
] as const;

interface Seen {
  readonly caller: number;
  /** As whom the caller logged in. */
  readonly asked: string;
  readonly status: number;
  /** Whom the origin saw, on which socket. */
  readonly user: string;
  readonly port: string;
}

/** Every caller was itself, on one connection that was nobody else's. */
function assertNobodyCrossed(seen: readonly Seen[]): void {
  assert.equal(seen.length, CALLERS * REQUESTS);
  for (const { asked, status, user } of seen) assert.deepEqual([status, user], [200, asked]);
  const ports = Map.groupBy(seen, ({ caller }) => caller)
    .values()
    .map((own) => new Set(own.map(({ port }) => port)));
  const all = [...ports];
  assert.deepEqual(new Set(all.map(({ size }) => size)), new Set([1]));
  assert.equal(new Set(all.flatMap((own) => [...own])).size, CALLERS);
}

for (const way of FORWARD_WAYS) {
  suite(way.title, () => {
    test(`${CALLERS} callers with curl --ntlm at once`, async (t) => {
      const lab = await useForwardLab(t, way.parent);
      if (lab === undefined || !requireCommand(t, 'curl')) return;
      await using world = await startForwardLab(lab, way.parent);
      const authority = `localhost:${lab.ports.frontEnd}`;
      const call = async (caller: number): Promise<Seen[]> => {
        const { user: asked, password } = ACCOUNTS[caller % 2 === 0 ? 0 : 1];
        const answers = await labCurl(
          Array.from({ length: REQUESTS }, (_, i) => `http://${authority}/${caller}/${i}`),
          ['--proxy', world.proxy, '--ntlm', '--user', `${asked}:${password}`],
        );
        assert.equal(
          answers.reduce((sum, { connections }) => sum + connections, 0),
          1,
        );
        return answers.map(({ status, user, port }) => ({
          caller,
          asked,
          status,
          user,
          port,
        }));
      };
      const seen = await Promise.all(Array.from({ length: CALLERS }, (_, i) => call(i)));
      assertNobodyCrossed(seen.flat());
      await world.served(authority, CALLERS * REQUESTS);
    });

    test(`${CALLERS} callers with requests-ntlm at once`, async (t) => {
      const lab = await useForwardLab(t, way.parent);
      if (lab === undefined || !requireCommand(t, PYTHON, REQUESTS_NTLM)) return;
      await using world = await startForwardLab(lab, way.parent);
      const authority = `localhost:${lab.ports.frontEnd}`;
      const output = await runClient(PYTHON, [
        join(import.meta.dirname, 'programs', 'requests-ntlm-callers.py'),
        `http://${authority}/x`,
        world.proxy,
        String(CALLERS),
        String(REQUESTS),
        ...ACCOUNTS.map(({ user, password }) => `${user}:${password}`),
      ]);
      const lines = output.trimEnd().split('\n');
      assertNobodyCrossed(lines.map((line) => JSON.parse(line) as Seen));
      await world.served(authority, CALLERS * REQUESTS);
    });
  });
}
