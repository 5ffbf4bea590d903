import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import {
  finalToken,
  judgeFinalAnswer,
  startLogin,
  type LegAnswer,
  type MessageExchange,
} from '../../../src/auth/handshake.ts';
import { decodeAuthenticate, decodeNegotiate } from '../../../src/auth/ntlm/messages.ts';
import type { SecurityContext } from '../../../src/auth/security-context.ts';
import { ProxyError, type ErrorCode } from '../../../src/errors.ts';
import { parseChallenges } from '../../../src/http/challenge.ts';
import { encodeNegTokenResp } from '../../../src/auth/spnego/tokens.ts';
import { CHALLENGE, newContext } from './ntlm/fixture.ts';
import { challengeToken, newSpnegoContext, respOf } from './spnego/fixture.ts';

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

/** Of an origin; a parent asks with 407. */
function answer(status: number, ...fields: string[]): LegAnswer {
  return {
    status,
    asks: status === 401,
    challenges: parseChallenges(fields),
    reusable: true,
  };
}

const negotiate = (token: Uint8Array): string =>
  `Negotiate ${Buffer.from(token).toString('base64')}`;

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

  test('a parent asks with 407; a 401 that comes through it asks nothing of us', async () => {
    const challenged = { ...answer(407, TYPE_2), asks: true };
    const start = await startLogin(new ScriptedExchange(challenged), newContext());
    assert.equal(start.kind, 'final-leg');
    const through = { ...answer(401, TYPE_2), asks: false };
    const passed = await startLogin(new ScriptedExchange(through), newContext());
    assert.deepEqual(passed, { kind: 'unchallenged', status: 401, reusable: true });
  });

  test('a context of one token sends no leg of its own', async () => {
    let complete = false;
    const single: SecurityContext = {
      scheme: 'Negotiate',
      get complete() {
        return complete;
      },
      step: async () => {
        await Promise.resolve();
        complete = true;
        return Buffer.from('once');
      },
      finish: () => undefined,
    };
    const exchange = new ScriptedExchange();
    const start = await startLogin(exchange, single);
    assert.deepEqual(start, { kind: 'final-leg', credentials: 'Negotiate b25jZQ==', legs: 1 });
    assert.equal(exchange.sent.length, 0);
  });

  test('NTLM inside Negotiate takes as many legs as the server wants, on one exchange', async () => {
    const later = encodeNegTokenResp({ state: 'request-mic' });
    for (const tokens of [[challengeToken()], [later, challengeToken()]]) {
      const answers = tokens.map((token) => answer(401, negotiate(token), 'NTLM'));
      const exchange = new ScriptedExchange(...answers);
      const start = await startLogin(exchange, newSpnegoContext());
      assert.equal(exchange.sent.length, tokens.length);
      assert.ok(exchange.sent.every((credentials) => credentials.startsWith('Negotiate ')));
      assert.equal(start.kind === 'final-leg' && start.legs, tokens.length + 1);
      const text = start.kind === 'final-leg' ? start.credentials : '';
      assert.ok(respOf(Buffer.from(text.slice('Negotiate '.length), 'base64')).mechListMic);
    }
  });

  test('a context that is asked for Negotiate does not answer NTLM', async () => {
    const exchange = new ScriptedExchange(answer(401, TYPE_2));
    await assert.rejects(startLogin(exchange, newSpnegoContext()), { code: 'no-common-scheme' });
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

  test('on a parent 407 is the word on our login, and 401 is none', () => {
    const parent = (status: number, ...fields: string[]) =>
      judgeFinalAnswer('negotiate', status, parseChallenges(fields), 407);
    assert.equal(parent(407, 'Negotiate'), 'rejected');
    assert.equal(parent(407, 'Basic realm="x"'), 'origin-refused');
    assert.equal(parent(401, 'Negotiate'), 'accepted');
    assert.equal(parent(200, 'Negotiate'), 'accepted');
  });

  test('Negotiate: bare or with a token that is not completed it is rejected, else denied', () => {
    const verdictOn = (...fields: string[]) =>
      judgeFinalAnswer('negotiate', 401, parseChallenges(fields));
    const completed = negotiate(encodeNegTokenResp({ state: 'accept-completed' }));
    assert.equal(verdictOn('Negotiate'), 'rejected');
    assert.equal(verdictOn(completed), 'denied');
    assert.equal(verdictOn(negotiate(encodeNegTokenResp({ state: 'reject' }))), 'rejected');
    assert.equal(verdictOn(negotiate(challengeToken())), 'rejected');
    assert.equal(verdictOn('Negotiate YWJj'), 'rejected');
    assert.equal(verdictOn(completed, completed), 'rejected');
    assert.equal(verdictOn('NTLM', 'Basic realm="x"'), 'origin-refused');
    assert.equal(verdict(401, completed.replace('Negotiate', 'NTLM')), 'rejected');
  });
});

describe('finalToken', () => {
  const token = (scheme: string, ...fields: string[]) =>
    finalToken(scheme, parseChallenges(fields));

  test('is the one token of our scheme, on any answer', () => {
    assert.deepEqual(token('negotiate', 'Negotiate YWJj'), Buffer.from('abc'));
    assert.deepEqual(
      token('negotiate', 'NTLM eA==, negotiate YWJj', 'Negotiate'),
      Buffer.from('abc'),
    );
    assert.deepEqual(token('ntlm', 'Negotiate YWJj', 'NTLM eA=='), Buffer.from('x'));
  });

  test('none came with no challenge, a bare one, or one of another scheme', () => {
    assert.equal(token('negotiate'), undefined);
    assert.equal(token('negotiate', 'Negotiate'), undefined);
    assert.equal(token('negotiate', 'NTLM eA==', 'X-Negotiate YWJj'), undefined);
  });

  test('A11: two, parameters, or bad base64 are malformed', () => {
    assert.equal(token('negotiate', 'Negotiate YWJj', 'Negotiate YWJj'), 'malformed');
    assert.equal(token('negotiate', 'Negotiate YWJj, Negotiate eA=='), 'malformed');
    assert.equal(token('negotiate', 'Negotiate realm="x"'), 'malformed');
    for (const text of ['YWJ', 'YW_j', 'YWJj=', 'YWK=']) {
      assert.equal(token('negotiate', `Negotiate ${text}`), 'malformed', text);
    }
  });

  test('A10: 48 KiB are taken, a byte more is not', () => {
    const field = (bytes: number) => `Negotiate ${Buffer.alloc(bytes).toString('base64')}`;
    assert.deepEqual(token('negotiate', field(49_152)), Buffer.alloc(49_152));
    assert.equal(token('negotiate', field(49_153)), 'malformed');
  });
});
