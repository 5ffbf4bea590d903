/** Two principals at one real parent, many requests at once: the parent serves each as itself. */
import assert from 'node:assert/strict';
import { Agent } from 'node:http';
import { test } from 'node:test';
import { startDaemon } from '../support/daemon.ts';
import { NTLM_PARENT, useForwardLab } from './forward-lab.ts';
import { LAB_SECRETS, type LabPrincipal, labRequest, principalLines } from './lab-daemon.ts';
import type { LabFacts, LabPorts } from './lab.ts';

const REQUESTS = 4000;
const IN_FLIGHT = 40;

interface Login {
  readonly principal: LabPrincipal;
  readonly schemes: string;
  /** The principal in the parent's words. */
  readonly user: string;
}

const ALICE_NTLM: Login = {
  principal: 'alice',
  schemes: 'ntlm',
  user: 'LAB\\alice',
};
const BOB_NTLM: Login = { principal: 'bob', schemes: 'ntlm', user: 'LAB\\bob' };
const ALICE_KERBEROS: Login = {
  principal: 'alice-keytab',
  schemes: 'negotiate',
  user: 'alice@LAB.TEST',
};
const BOB_KERBEROS: Login = {
  principal: 'bob-tickets',
  schemes: 'negotiate',
  user: 'bob@LAB.TEST',
};

/**
 * One listener for each login, `egress0` and so on, before one parent; logins of the same schemes share
 * the upstream too.
 */
function configuration(lab: LabFacts, port: keyof LabPorts, logins: readonly Login[]): string {
  const allSchemes = new Set(logins.map(({ schemes }) => schemes));
  const proxy = `proxy: 'http://localhost:${lab.ports[port]}'`;
  return [
    'version: 1',
    'log: { access: false }',
    ...principalLines(
      lab,
      logins.map(({ principal }) => principal),
    ),
    'upstreams:',
    // It has no principal of its own: that of the listener's rule counts.
    ...[...allSchemes].map(
      (schemes) => `  by-${schemes}: { ${proxy}, auth: { schemes: [${schemes}] } }`,
    ),
    'listeners:',
    ...logins.flatMap(({ principal, schemes }, i) => [
      `  - name: egress${i}`,
      '    listen: 127.0.0.1:0',
      '    mode: forward',
      `    via: [by-${schemes}]`,
      `    principal: [{ use: ${principal} }]`,
      "    allow: ['localhost:*']",
    ]),
    '',
  ].join('\n');
}

for (const [title, port, logins] of [
  ['alice and bob by NTLM', 'squidNtlm', [ALICE_NTLM, BOB_NTLM]],
  ['alice and bob by Kerberos', 'squidNegotiate', [ALICE_KERBEROS, BOB_KERBEROS]],
  ['alice by NTLM and bob by Kerberos', 'squidAll', [ALICE_NTLM, BOB_KERBEROS]],
  [
    'alice and bob by Kerberos on each request',
    'apacheParentPerRequest',
    [ALICE_KERBEROS, BOB_KERBEROS],
  ],
] as const) {
  test(`${title}: ${REQUESTS} requests, ${IN_FLIGHT} at once, each as itself`, async (t) => {
    const lab = await useForwardLab(t, NTLM_PARENT);
    if (lab === undefined) return;
    await using daemon = await startDaemon({
      config: configuration(lab, port, logins),
      secrets: LAB_SECRETS,
    });
    const url = `http://localhost:${lab.ports.apacheOpen}/echo`;
    const agent = new Agent({ keepAlive: true, maxSockets: IN_FLIGHT / 2 });
    const sockets = logins.map(() => new Set<string>());
    let asked = 0;
    const caller = async (): Promise<void> => {
      while (asked < REQUESTS) {
        const i = asked % logins.length;
        asked += 1;
        const answer = await labRequest(daemon.address(`egress${i}`).port, url, { agent });
        assert.deepEqual([answer.status, answer.parentUser], [200, logins[i]?.user], answer.body);
        sockets[i]?.add(answer.parentPort);
      }
    };
    await Promise.all(Array.from({ length: IN_FLIGHT }, caller));
    agent.destroy();
    const [first = new Set(), second = new Set()] = sockets;
    assert.ok(first.size > 0 && second.size > 0);
    assert.deepEqual([...first.intersection(second)], []);
  });
}
