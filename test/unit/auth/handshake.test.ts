import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import {
  judgeFinalAnswer,
  startLogin,
  type LegAnswer,
  type MessageExchange,
} from '../../../src/auth/handshake.ts';
import { decodeAuthenticate, decodeNegotiate } from '../../../src/auth/ntlm/messages.ts';
import type { SecurityContext } from '../../../src/auth/security-context.ts';
import { ProxyError, type ErrorCode } from '../../../src/errors.ts';
import { parseChallenges } from '../../../src/http/challenge.ts';
import { CHALLENGE, newContext } from './ntlm/fixture.ts';

/** Answers legs from a list, and records what was sent. */
class ScriptedExchange implements MessageExchange {
  readonly sent: string[] = [];
  readonly #answers: LegAnswer[];

  constructor(...answers: LegAnswer[]) {
    this.#answers = answers;
  }

  leg(credentials: string): Promise<LegAnswer> {
    this.sent.push(credentials);
    const answer = this.#answers.shift();
    const end = new ProxyError('upstream-closed', 'no more answers', {
      side: 'upstream',
      stage: 'handshake',
    });
    return answer === undefined ? Promise.reject(end) : Promise.resolve(answer);
  }
}

function answer(status: number, ...fields: string[]): LegAnswer {
  return {
    status,
    asks: status === 401,
    challenges: parseChallenges(fields),
    reusable: true,
  };
}

const TYPE_2 = `NTLM ${CHALLENGE.toString('base64')}`;

async function fails(code: ErrorCode, ...answers: LegAnswer[]): Promise<ScriptedExchange> {
  const exchange = new ScriptedExchange(...answers);
  await assert.rejects(startLogin(exchange, newContext()), (error) => {
    assert.ok(error instanceof ProxyError);
    assert.equal(error.code, code);
    assert.equal(error.retry, 'never');
    assert.ok(!/TlRM/.test(error.message));
    return true;
  });
  return exchange;
}

function bytesOf(credentials: string | undefined): Buffer {
  const match = /^NTLM ([A-Za-z0-9+/]+={0,2})$/.exec(credentials ?? '');
  assert.ok(match?.[1]);
  return Buffer.from(match[1], 'base64');
}

describe('startLogin', () => {
  test('sends NEGOTIATE, reads CHALLENGE, and leaves AUTHENTICATE to the real request', async () => {
    const exchange = new ScriptedExchange(answer(401, 'Negotiate', TYPE_2, 'Basic realm="x"'));
    const start = await startLogin(exchange, newContext());
    assert.equal(exchange.sent.length, 1);
    assert.ok(decodeNegotiate(bytesOf(exchange.sent[0])));
    assert.equal(start.kind, 'final-leg');
    assert.equal(start.kind === 'final-leg' && start.legs, 2);
    const message = start.kind === 'final-leg' && bytesOf(start.credentials);
    assert.equal(message && decodeAuthenticate(message)?.user, 'User');
  });

  test('an answer that asks for nothing is unchallenged, whatever its status', async () => {
    for (const status of [200, 204, 302, 403, 404, 500]) {
      const exchange = new ScriptedExchange({ ...answer(status), reusable: false });
      const start = await startLogin(exchange, newContext());
      assert.deepEqual(start, { kind: 'unchallenged', status, reusable: false });
    }
  });

  test('A8: a bare NTLM after NEGOTIATE ends the login', async () => {
    const exchange = await fails('handshake-failed', answer(401, 'NTLM'), answer(401, TYPE_2));
    assert.equal(exchange.sent.length, 1);
  });

  test('E22: a connection that ends at the challenge ends the login, and no token follows', async () => {
    await fails('handshake-failed', { ...answer(401, TYPE_2), reusable: false });
  });

  test('R31 terminates against a server that always answers with a CHALLENGE', async () => {
    const exchange = new ScriptedExchange(...Array.from({ length: 50 }, () => answer(401, TYPE_2)));
    const start = await startLogin(exchange, newContext());
    assert.equal(start.kind, 'final-leg');
    assert.equal(exchange.sent.length, 1);
    assert.equal(judgeFinalAnswer('ntlm', 401, parseChallenges([TYPE_2])), 'rejected');
  });

  test('R31 legs are bounded for a context that never completes', async () => {
    const endless: SecurityContext = {
      scheme: 'NTLM',
      complete: false,
      step: () => Buffer.from('again'),
      finish: () => undefined,
    };
    const exchange = new ScriptedExchange(...Array.from({ length: 50 }, () => answer(401, TYPE_2)));
    await assert.rejects(startLogin(exchange, endless), { code: 'handshake-failed' });
    assert.equal(exchange.sent.length, 5);
  });

  test('R29 a 401 that does not offer the scheme has nothing in common with us', async () => {
    await fails('no-common-scheme', answer(401, 'Basic realm="x"', 'Negotiate'));
    await fails('no-common-scheme', answer(401));
    await fails('no-common-scheme', answer(401, 'NTLM2', 'X-NTLM'));
  });

  test('a token that is not base64, too long, doubled, or no CHALLENGE is malformed', async () => {
    const large = Buffer.alloc(12_289, CHALLENGE).toString('base64');
    const echoed = newContext().step();
    await fails('challenge-malformed', answer(401, 'NTLM a='));
    await fails('challenge-malformed', answer(401, 'NTLM token="x"'));
    await fails('challenge-malformed', answer(401, `NTLM ${large}`));
    await fails('challenge-malformed', answer(401, TYPE_2, TYPE_2));
    await fails('challenge-malformed', answer(401, 'NTLM YWJj'));
    await fails(
      'challenge-malformed',
      answer(401, `NTLM ${Buffer.from(echoed).toString('base64')}`),
    );
  });

  test('a bare NTLM beside the challenge is no reason to give up', async () => {
    const exchange = new ScriptedExchange(answer(401, 'ntlm', TYPE_2));
    const start = await startLogin(exchange, newContext());
    assert.equal(start.kind, 'final-leg');
  });

  test('what the exchange rejects with is passed on', async () => {
    await fails('upstream-closed');
  });

  test('R32 a context that has ended gives no second token', async () => {
    const context = newContext();
    await startLogin(new ScriptedExchange(answer(401, TYPE_2)), context);
    await assert.rejects(startLogin(new ScriptedExchange(answer(401, TYPE_2)), context), {
      code: 'challenge-malformed',
    });
  });
});

describe('judgeFinalAnswer', () => {
  const verdict = (status: number, ...fields: string[]) =>
    judgeFinalAnswer('ntlm', status, parseChallenges(fields));

  test('anything but 401 and 407 is accepted', () => {
    for (const status of [200, 201, 204, 302, 400, 403, 404, 500, 503]) {
      assert.equal(verdict(status, 'NTLM'), 'accepted');
    }
  });

  test('R38 a 401 that asks for our scheme again is rejected', () => {
    assert.equal(verdict(401, 'NTLM'), 'rejected');
    assert.equal(verdict(401, 'Basic realm="x", nTLM'), 'rejected');
    assert.equal(verdict(401, TYPE_2), 'rejected');
  });

  test("R38 a 401 without our scheme is the origin's word about this user", () => {
    assert.equal(verdict(401), 'origin-refused');
    assert.equal(verdict(401, 'Basic realm="x"', 'Negotiate'), 'origin-refused');
  });

  test('R26 a 407 of an origin says nothing of the login', () => {
    assert.equal(verdict(407, 'NTLM'), 'origin-refused');
  });
});
