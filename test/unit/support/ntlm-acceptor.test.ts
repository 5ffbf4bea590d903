/** The judge of logins against published values, and against the daemon's initiator. */

import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { describe, it } from 'node:test';
import { createNtlmContext } from '../../../src/auth/ntlm/context.ts';
import { createNtlmIdentity } from '../../../src/identity/identity.ts';
import { md4 } from '../../support/md4.ts';
import {
  bindingsHash,
  ntHash,
  NtlmAcceptor,
  type AcceptorSettings,
  type Verdict,
} from '../../support/ntlm-acceptor.ts';
import { testType1, testType3 } from '../../support/ntlm-client.ts';
import { ntHashSecret } from '../../support/versioned-secrets.ts';

const accounts = { 'LAB\\alice': 'alice-secret', 'straße@lab.test': 'pässwörd' } as const;
const endPoint = Buffer.from('tls-server-end-point:0123456789abcdef0123456789abcdef');

interface Attempt {
  readonly username?: string;
  readonly password?: string;
  readonly settings?: Partial<AcceptorSettings>;
  readonly bindings?: Uint8Array | undefined;
  readonly change?: (token: Buffer) => Buffer;
}

/** One login of the daemon's own initiator. */
function attempt(wish: Attempt = {}): Verdict {
  const context = createNtlmContext({
    identity: createNtlmIdentity({
      principal: 'p',
      username: wish.username ?? 'LAB\\alice',
      workstation: 'WORK',
      ntHash: ntHashSecret(ntHash(wish.password ?? 'alice-secret')),
    }),
    spn: 'HTTP/origin.test',
    bindings: wish.bindings,
    wall: () => Date.now(),
    random: (length) => randomBytes(length),
  });
  const type1 = Buffer.from(context.step());
  const acceptor = new NtlmAcceptor({ accounts, ...wish.settings }, type1);
  const type3 = Buffer.from(context.step(acceptor.sent));
  return acceptor.verify(wish.change?.(type3) ?? type3);
}

describe('MD4', () => {
  const vectors = {
    '': '31d6cfe0d16ae931b73c59d7e0c089c0',
    abc: 'a448017aaf21d8525fc10ae87aa6729d',
    '12345678901234567890123456789012345678901234567890123456789012345678901234567890':
      'e33b4ddc9c38f2199c3e7b164fcc0536',
  } as const;
  for (const [text, digest] of Object.entries(vectors)) {
    it(`of ${text.length} bytes is that of RFC 1320 A.5`, () => {
      assert.equal(md4(Buffer.from(text)).toString('hex'), digest);
    });
  }

  it('of a password is the NTOWFv1 of MS-NLMP 4.2.2.1.2', () => {
    assert.equal(ntHash('Password').toString('hex'), 'a4f49c406510bdcab6824ee7c30fd852');
  });
});

describe("the acceptor and the daemon's initiator", () => {
  it('agree on everything that a login says', () => {
    const verdict = attempt({
      bindings: endPoint,
      settings: { bindings: endPoint, channelBinding: 'required', requireMic: true },
    });
    assert.deepEqual(
      { ...verdict, claim: { ...verdict.claim, flags: 0 } },
      {
        ok: true,
        claim: {
          domain: 'LAB',
          user: 'alice',
          workstation: 'WORK',
          spn: 'HTTP/origin.test',
          bindings: bindingsHash(endPoint).toString('hex'),
          mic: 'good',
          lmEmpty: true,
          timeEchoed: true,
          flags: 0,
        },
      },
    );
  });

  it('agree on a UPN and a name that upper case must not lengthen', () => {
    assert.equal(attempt({ username: 'straße@lab.test', password: 'pässwörd' }).ok, true);
  });

  it('agree without a timestamp and without target info', () => {
    assert.equal(attempt({ settings: { challenge: { timestamp: false } } }).ok, true);
    assert.equal(attempt({ settings: { challenge: { targetInfo: false } } }).ok, true);
  });

  const refusals: Readonly<Record<string, Attempt>> = {
    'a wrong password': { password: 'Alice-secret' },
    'an unknown user': { username: 'LAB\\carol' },
    'another domain': { username: 'OTHER\\alice' },
    'wrong bindings': {
      bindings: Buffer.from('tls-server-end-point:x'),
      settings: { bindings: endPoint, channelBinding: 'accept' },
    },
    'bindings where the connection has no TLS': {
      bindings: endPoint,
      settings: { channelBinding: 'accept' },
    },
    'no bindings where they are required': {
      settings: { bindings: endPoint, channelBinding: 'required' },
    },
    'no MIC where it is required': {
      settings: { challenge: { targetInfo: false }, requireMic: true },
    },
    'a broken MIC': {
      change: (token) => {
        token[80] = (token[80] ?? 0) ^ 1;
        return token;
      },
    },
    'flags changed under the MIC': {
      change: (token) => {
        token[63] = (token[63] ?? 0) ^ 0x20;
        return token;
      },
    },
    'a message that is cut': { change: (token) => token.subarray(0, token.length - 40) },
    'an NTLMv1 response': {
      change: (token) => {
        token.writeUInt16LE(24, 20);
        return token;
      },
    },
    'bytes that are no message': { change: () => Buffer.from('NTLMSSP\0') },
  };
  for (const [what, wish] of Object.entries(refusals)) {
    it(`${what} is refused`, () => {
      assert.equal(attempt(wish).ok, false);
    });
  }
});

describe('the smallest initiator of the kit', () => {
  it('logs in, and its claim has no MIC', () => {
    const acceptor = new NtlmAcceptor({ accounts }, Buffer.from(testType1(), 'base64'));
    const login = { domain: 'LAB', user: 'alice', password: 'alice-secret' };
    const verdict = acceptor.verify(
      Buffer.from(testType3(login, acceptor.sent.toString('base64')), 'base64'),
    );
    assert.deepEqual([verdict.ok, verdict.claim?.mic], [true, 'absent']);
  });
});
