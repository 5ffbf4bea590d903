/** The scripted upstream itself, judged by NTLM clients of other people. */

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import {
  curlAvailability,
  curlNtlm,
  requestsNtlm,
  requestsNtlmAvailability,
} from '../../support/external-clients.ts';
import { startScriptedUpstream } from '../../support/scripted-upstream.ts';

const alice = { user: 'LAB\\alice', password: 'alice-secret' } as const;

describe('scripted upstream and curl --ntlm', curlAvailability(), () => {
  it('a right password is answered as its user, on one socket for two requests', async () => {
    await using upstream = await startScriptedUpstream();
    const answer = await curlNtlm({ ...alice, url: `${upstream.url}/x`, times: 2 });
    assert.equal(answer.status, 200);
    const facts = JSON.parse(answer.body) as { user: string; socket: number; nth: number };
    assert.equal(facts.user, 'LAB\\alice');
    assert.equal(upstream.journal.sockets.length, 1);
    assert.deepEqual(upstream.journal.sockets[0]?.logins, ['LAB\\alice']);
    assert.equal(upstream.count('type3'), 1);
    assert.deepEqual(
      upstream.requests.map(({ token, status }) => [token, status]),
      [
        ['type1', 401],
        ['type3', 200],
        ['none', 200],
      ],
    );
  });

  it('a wrong password is refused with a bare challenge', async () => {
    await using upstream = await startScriptedUpstream();
    const answer = await curlNtlm({ ...alice, password: 'wrong', url: `${upstream.url}/x` });
    assert.equal(answer.status, 401);
    assert.deepEqual(upstream.journal.sockets[0]?.logins, []);
    assert.equal(upstream.journal.sockets[0]?.claims[0]?.user, 'alice');
  });

  it('a body arrives once, with the last leg', async () => {
    await using upstream = await startScriptedUpstream({ body: { refuseOnType1: true } });
    const answer = await curlNtlm({ ...alice, url: upstream.url, method: 'POST', body: 'abc' });
    assert.equal(answer.status, 200);
    assert.deepEqual(
      upstream.requests.map(({ bodyLength }) => bodyLength),
      [0, 3],
    );
  });
});

describe('scripted upstream and requests-ntlm', requestsNtlmAvailability(), () => {
  it('a right password is answered as its user, with a good MIC', async () => {
    await using upstream = await startScriptedUpstream();
    const answer = await requestsNtlm({ ...alice, url: `${upstream.url}/x`, times: 2 });
    assert.equal(answer.status, 200);
    assert.equal((JSON.parse(answer.body) as { user: string }).user, 'LAB\\alice');
    const [claim] = upstream.journal.sockets.flatMap(({ claims }) => claims);
    assert.equal(claim?.mic, 'good');
    assert.equal(claim.timeEchoed, true);
    assert.equal(upstream.count('type3'), 1);
  });
});
