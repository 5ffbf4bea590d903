/** Basic and Digest, which send the password itself or prove it for each request, at Apache. */
import assert from 'node:assert/strict';
import { Agent } from 'node:http';
import { describe, test } from 'node:test';
import { startDaemon, type TestDaemon } from '../support/daemon.ts';
import { LAB_SECRETS, labRequest, principalLines } from './lab-daemon.ts';
import { type LabFacts, useLab } from './lab.ts';

const SCHEMES = ['basic', 'digest'] as const;

/** Routes for alice, bob and a wrong password, to a place that takes one scheme. */
function start(lab: LabFacts, scheme: (typeof SCHEMES)[number]): Promise<TestDaemon> {
  const people = ['alice', 'bob', 'wrong'] as const;
  const url = `http://localhost:${lab.ports.apachePassword}/${scheme}`;
  const allowed = scheme === 'basic' ? ', dangerousPlaintextBasic: true' : '';
  return startDaemon({
    config: [
      'version: 1',
      'log: { access: false }',
      ...principalLines(lab, people),
      'upstreams:',
      ...people.map(
        (who) =>
          `  ${who}: { url: '${url}', auth: { principal: ${who}, schemes: ${scheme}${allowed} } }`,
      ),
      'listeners:',
      '  - name: lab',
      '    listen: 127.0.0.1:0',
      '    routes:',
      ...people.map((who) => `      - { path: /${who}/, upstream: ${who}, stripPrefix: true }`),
      '',
    ].join('\n'),
    secrets: LAB_SECRETS,
  });
}

describe('a password', () => {
  for (const scheme of SCHEMES) {
    test(`by ${scheme} serves each user as himself, over many requests`, async (t) => {
      const lab = await useLab(t, 'apache');
      if (lab === undefined) return;
      await using daemon = await start(lab, scheme);
      const agent = new Agent({ keepAlive: true });
      const ports = new Map<string, Set<string>>();
      const ask = async (who: 'alice' | 'bob', body?: Buffer): Promise<void> => {
        const upload = body && ({ method: 'POST', pieces: [body], length: body.length } as const);
        const options = upload === undefined ? { agent } : { agent, upload };
        const answer = await labRequest(daemon.address().port, `/${who}/x?q=1`, options);
        assert.deepEqual([answer.status, answer.user], [200, `LAB\\${who}`]);
        ports.set(who, (ports.get(who) ?? new Set()).add(answer.port));
      };
      for (let i = 0; i < 20; i += 1) await Promise.all([ask('alice'), ask('bob')]);
      await ask('alice', Buffer.alloc(1000, 'x'));
      agent.destroy();
      const [alice, bob] = [ports.get('alice'), ports.get('bob')];
      assert.ok(alice !== undefined && bob !== undefined);
      // A connection is one user's, whatever the scheme (R3, R7).
      assert.deepEqual([...alice.intersection(bob)], []);
      assert.equal(alice.size, 1);
    });

    test(`by ${scheme} that is wrong is refused, and not tried for ever`, async (t) => {
      const lab = await useLab(t, 'apache');
      if (lab === undefined) return;
      await using daemon = await start(lab, scheme);
      const statuses: number[] = [];
      for (let i = 0; i < 5; i += 1) {
        statuses.push((await labRequest(daemon.address().port, '/wrong/x')).status);
      }
      assert.deepEqual(statuses, [502, 502, 502, 503, 503]);
    });
  }
});
