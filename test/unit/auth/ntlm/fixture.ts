/**
 * One account, one good challenge, and a context with fixed time and randomness.
 */
import {
  createNtlmContext,
  type NtlmContextOptions,
  type NtlmInitiator,
} from '../../../../src/auth/ntlm/context.ts';
import { FLAG } from '../../../../src/auth/ntlm/fields.ts';
import { encodeChallenge } from '../../../../src/auth/ntlm/messages.ts';
import { ntowfv1 } from '../../../../src/auth/ntlm/ntlmv2.ts';
import { AV } from '../../../../src/auth/ntlm/target-info.ts';
import { createNtlmIdentity, type NtlmIdentity } from '../../../../src/identity/identity.ts';
import { ntHashSecret } from '../../../support/versioned-secrets.ts';

export const PASSWORD = 'Password';

/** The account of MS-NLMP 4.2, unless another name is given. */
export function newIdentity(username = 'Domain\\User', workstation = 'COMPUTER'): NtlmIdentity {
  return createNtlmIdentity({
    principal: 'test',
    username,
    workstation,
    ntHash: ntHashSecret(ntowfv1(PASSWORD)),
  });
}

export const SERVER_CHALLENGE = Buffer.from('0123456789abcdef', 'hex');
export const CLIENT_CHALLENGE = Buffer.alloc(8, 0xaa);
export const TIMESTAMP = Buffer.from('00dc5acd0aeb80dd', 'hex');

export const CHALLENGE_FLAGS =
  (FLAG.UNICODE |
    FLAG.NTLM |
    FLAG.ALWAYS_SIGN |
    FLAG.EXTENDED_SESSIONSECURITY |
    FLAG.TARGET_INFO |
    FLAG.VERSION) >>>
  0;

/** A challenge as a current server sends it. */
export const CHALLENGE = encodeChallenge({
  flags: CHALLENGE_FLAGS,
  serverChallenge: SERVER_CHALLENGE,
  targetName: 'LAB',
  targetInfo: [
    { id: AV.NB_DOMAIN_NAME, value: Buffer.from('LAB', 'utf16le') },
    { id: AV.NB_COMPUTER_NAME, value: Buffer.from('SRV', 'utf16le') },
    { id: AV.TIMESTAMP, value: TIMESTAMP },
  ],
});

/** A context on that account. */
export function newContext(options: Partial<NtlmContextOptions> = {}): NtlmInitiator {
  return createNtlmContext({
    identity: newIdentity(),
    spn: 'HTTP/server',
    bindings: undefined,
    wall: () => Date.UTC(2026, 0, 1),
    random: (bytes) => CLIENT_CHALLENGE.subarray(0, bytes),
    ...options,
  });
}
