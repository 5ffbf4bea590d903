import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import type { MutualPolicy } from '../../../../src/auth/security-context.ts';
import {
  createSpnegoKerberosContext,
  type TicketUse,
} from '../../../../src/auth/spnego/kerberos-context.ts';
import { encodeElement, encodeOid, TAG } from '../../../../src/auth/spnego/der.ts';
import { encodeNegTokenInit, encodeNegTokenResp, OID } from '../../../../src/auth/spnego/tokens.ts';
import { ProxyError } from '../../../../src/errors.ts';
import { hex, readVectors } from '../../../spec/vectors.ts';
import { proxyError, respOf } from './fixture.ts';

const TOKEN = Buffer.from('ticket');

/** Records what it is asked to check; refuses everything when told so. */
class RecordingUse implements TicketUse {
  readonly token = TOKEN;
  readonly checked: Buffer[] = [];
  disposed = 0;
  readonly #refuses: boolean;

  constructor(refuses = false) {
    this.#refuses = refuses;
  }

  finish(token: Uint8Array): Promise<void> {
    assert.equal(this.disposed, 0, 'checked after it was freed');
    this.checked.push(Buffer.from(token));
    if (!this.#refuses) return Promise.resolve();
    const facts = { side: 'upstream', stage: 'handshake' } as const;
    return Promise.reject(new ProxyError('mutual-failed', 'wrong AP-REP', facts));
  }

  dispose(): void {
    this.disposed += 1;
  }
}

function world(mutual: MutualPolicy, refuses = false) {
  const use = new RecordingUse(refuses);
  return { use, context: createSpnegoKerberosContext(use, mutual) };
}

const { tokens } = readVectors('spnego.json') as { tokens: { name: string; hex: string }[] };

function vector(name: string): Buffer {
  return hex(tokens.find((token) => token.name === name)?.hex ?? assert.fail(name));
}

const PROOF = vector('krb5-resp-accept-completed-mutual');
const DONE = vector('krb5-resp-accept-completed-no-mutual');

/** An AP-REP with the GSS-API header of Kerberos and no SPNEGO. */
const bareReply = (mech: string): Buffer =>
  encodeElement(TAG.APPLICATION_0, encodeOid(mech), Buffer.from('0200'));

describe('a Kerberos login', () => {
  test('is complete after its first token, which is the one of the provider', async () => {
    const { context, use } = world('optional');
    assert.equal(context.complete, false);
    assert.equal(await context.step(), TOKEN);
    assert.equal(context.complete, true);
    assert.equal(context.scheme, 'Negotiate');
    assert.equal(use.disposed, 0);
  });

  test('R32 gives its token once', async () => {
    const { context } = world('optional');
    await context.step();
    assert.throws(() => context.step(), proxyError('challenge-malformed'));
    assert.throws(() => context.step(PROOF), proxyError('challenge-malformed'));
  });
});

describe('the final token (R36)', () => {
  test('is handed to the provider as it came, under optional and required', async () => {
    for (const mutual of ['optional', 'required'] as const) {
      const { context, use } = world(mutual);
      await context.finish(PROOF);
      assert.deepEqual(use.checked, [PROOF]);
      assert.equal(use.disposed, 1);
    }
  });

  test('what the provider refuses is refused, and its state freed', async () => {
    for (const mutual of ['optional', 'required'] as const) {
      const { context, use } = world(mutual, true);
      await assert.rejects(async () => context.finish(PROOF), proxyError('mutual-failed'));
      assert.equal(use.disposed, 1);
    }
  });

  test('is not looked at when mutual is off', async () => {
    for (const token of [PROOF, undefined, Buffer.from('nonsense')]) {
      const { context, use } = world('off', true);
      await context.finish(token);
      assert.deepEqual(use.checked, []);
      assert.equal(use.disposed, 1);
    }
  });

  test('its absence fails only when it is required; a token that proves nothing is absent', async () => {
    for (const token of [undefined, DONE]) {
      const relaxed = world('optional');
      await relaxed.context.finish(token);
      assert.deepEqual(relaxed.use.checked, []);
      assert.equal(relaxed.use.disposed, 1);
      const strict = world('required');
      await assert.rejects(async () => strict.context.finish(token), proxyError('mutual-failed'));
      assert.equal(strict.use.disposed, 1);
    }
  });

  test('a bare Kerberos token is checked as one inside SPNEGO', async () => {
    for (const mech of [OID.KRB5, OID.MS_KRB5]) {
      const { context, use } = world('required');
      await context.finish(bareReply(mech));
      const [token = Buffer.alloc(0)] = use.checked;
      const reply = respOf(token);
      assert.deepEqual([reply.state, reply.mech], ['accept-completed', OID.KRB5]);
      assert.deepEqual(Buffer.from(reply.responseToken ?? []), bareReply(mech));
    }
  });

  test('the object identifier that Windows got wrong names Kerberos too', async () => {
    const { context, use } = world('required');
    const token = encodeNegTokenResp({ mech: OID.MS_KRB5, responseToken: TOKEN });
    await context.finish(token);
    assert.deepEqual(use.checked, [token]);
  });

  const bad: Readonly<Record<string, Buffer>> = {
    'a rejection with a KRB-ERROR': vector('krb5-resp-reject-with-KRB-ERROR'),
    'a NegTokenInit': encodeNegTokenInit({ mechTypes: [OID.KRB5], mechToken: TOKEN }),
    'another mechanism': encodeNegTokenResp({ mech: OID.NTLM, responseToken: TOKEN }),
    'a bare token of another mechanism': bareReply(OID.NTLM),
    'a malformed token': Buffer.from('a103', 'hex'),
    'an empty token': Buffer.alloc(0),
  };
  for (const [name, token] of Object.entries(bad)) {
    test(`${name} never reaches the provider`, async () => {
      for (const mutual of ['optional', 'required'] as const) {
        const { context, use } = world(mutual);
        await assert.rejects(async () => context.finish(token), proxyError('mutual-failed'));
        assert.deepEqual(use.checked, []);
        assert.equal(use.disposed, 1);
      }
    });
  }

  test('a login that was given up is freed by dispose', () => {
    const { context, use } = world('optional');
    context.dispose?.();
    assert.equal(use.disposed, 1);
  });
});
