/** Whole NTLM messages of the specification, of Chromium, of Windows and of servers met (MS-NLMP 2.2.1). */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import { FLAG, hasFlag, isMessage } from '../../src/auth/ntlm/fields.ts';
import {
  decodeAuthenticate,
  decodeChallenge,
  decodeNegotiate,
  encodeAuthenticate,
  MIC_OFFSET,
} from '../../src/auth/ntlm/messages.ts';
import {
  messageIntegrityCode,
  ntlmv2Response,
  ntowfv1,
  ntowfv2,
  ntProof,
} from '../../src/auth/ntlm/ntlmv2.ts';
import {
  AV,
  channelBindingsHash,
  channelBindingsStruct,
  decodeTargetInfo,
  encodeTargetInfo,
  findAv,
  responseTargetInfo,
} from '../../src/auth/ntlm/target-info.ts';
import { hex, readVectors } from './vectors.ts';

interface Account {
  user: string;
  domain: string;
  password: string;
}

interface Messages {
  chromium: Account & {
    workstation: string;
    clientChallenge: string;
    timestampFileTime: string;
    flags: number;
    negotiate: string;
    bindings: string;
    cases: {
      name: string;
      challenge: string;
      authenticate: string;
      proof: string;
      mic: string;
      sessionKey?: string;
      targetInfo?: string;
    }[];
  };
  windowsEpa: Account & {
    workstation: string;
    bindings: string;
    negotiate: string;
    challenge: string;
    authenticate: string;
    proof: string;
    sessionKey: string;
    mic: string;
    bindingsStruct: string;
    bindingsHash: string;
    targetName: string;
    timestamp: string;
    pairIds: number[];
  };
  ntlmAuth: Account & {
    workstation: string;
    endpointHash: string;
    exportedSessionKey: string;
    negotiate: string;
    challenge: string;
    authenticateWithMic: string;
    authenticateWithoutMic: string;
    bindingsHash: string;
    mic: string;
    proof: string;
  };
  specification: {
    ntlmv1Challenge: string;
    ntlmv1Authenticate: string;
    ntlmv2Challenge: string;
    ntlmv2Authenticate: string;
  };
  davenportNegotiate: { flags: number; hex: string }[];
  captured: {
    sambaChallenge: { hex: string; flags: number; pairIds: number[] };
    squidFakeAuthChallenge: string;
    curlNegotiate: string;
    curlAuthenticate: Account & { serverChallenge: string; workstation: string; hex: string };
    windowsNegotiate: string;
    windowsDcChallenge: string;
    authenticateUpn: string;
    authenticateNoSign: string;
    iis5ChallengeBase64: string;
  };
  accepted: (Account & {
    server: string;
    negotiate: string;
    challenge: string;
    authenticate: string;
    sessionKey: string;
    flags: number;
  })[];
}

const vectors = readVectors('ntlm-messages.json') as Messages;

const keyOf = (account: Account): Buffer =>
  ntowfv2(ntowfv1(account.password), account.user, account.domain);

/** The parts of an NTLMv2 response: proof, blob, and the blob's fields. */
function split(ntResponse: Uint8Array) {
  const bytes = Buffer.from(ntResponse);
  return {
    proof: bytes.subarray(0, 16),
    temp: bytes.subarray(16),
    timestamp: bytes.subarray(24, 32),
    clientChallenge: bytes.subarray(32, 40),
    pairs: decodeTargetInfo(bytes.subarray(44)) ?? assert.fail('no target info'),
  };
}

function zeroMic(message: Buffer): Buffer {
  return Buffer.from(message).fill(0, MIC_OFFSET, MIC_OFFSET + 16);
}

const micOf = (message: Buffer): string =>
  message.subarray(MIC_OFFSET, MIC_OFFSET + 16).toString('hex');

function decoded(message: Buffer) {
  return decodeAuthenticate(message) ?? assert.fail('AUTHENTICATE not decoded');
}

describe('Chromium net/ntlm/ntlm_test_data.h', () => {
  const { chromium } = vectors;
  const timestamp = Buffer.alloc(8);
  timestamp.writeBigUInt64LE(BigInt(chromium.timestampFileTime));

  for (const vector of chromium.cases) {
    test(`${vector.name}: the whole AUTHENTICATE message is rebuilt from its inputs`, () => {
      const challenge = decodeChallenge(hex(vector.challenge));
      const published = split(decoded(hex(vector.authenticate)).ntResponse);
      const spn = Buffer.from(findAv(published.pairs, AV.TARGET_NAME) ?? []).toString('utf16le');
      const noTls = vector.name.startsWith('no TLS');
      const targetInfo = encodeTargetInfo(
        responseTargetInfo({
          received: challenge.targetInfo ?? [],
          withMic: true,
          bindings: noTls ? undefined : hex(chromium.bindings),
          spn,
        }),
      );
      if (vector.targetInfo !== undefined) {
        assert.equal(targetInfo.toString('hex'), vector.targetInfo);
      }
      const response = ntlmv2Response({
        key: keyOf(chromium),
        serverChallenge: challenge.serverChallenge,
        clientChallenge: hex(chromium.clientChallenge),
        timestamp,
        targetInfo,
      });
      assert.equal(response.ntResponse.subarray(0, 16).toString('hex'), vector.proof);
      if (vector.sessionKey !== undefined) {
        assert.equal(response.sessionKey.toString('hex'), vector.sessionKey);
      }
      const message = encodeAuthenticate({
        flags: chromium.flags,
        version: new Uint8Array(8),
        lmResponse: new Uint8Array(24),
        ntResponse: response.ntResponse,
        domain: chromium.domain,
        user: chromium.user,
        workstation: chromium.workstation,
        sessionKey: new Uint8Array(0),
      });
      message.set(
        messageIntegrityCode(
          response.sessionKey,
          hex(chromium.negotiate),
          hex(vector.challenge),
          message,
        ),
        MIC_OFFSET,
      );
      assert.equal(micOf(message), vector.mic);
      assert.equal(message.toString('hex'), vector.authenticate);
    });
  }

  test('its 32-byte NEGOTIATE message is read by the acceptor', () => {
    assert.deepEqual(decodeNegotiate(hex(chromium.negotiate)), { flags: 0x00088207 });
  });
});

describe('Microsoft open specifications blog 2013-03-26: Windows 7 with channel bindings', () => {
  const { windowsEpa: epa } = vectors;
  const message = hex(epa.authenticate);

  test('MsvAvChannelBindings is the MD5 of the GSS structure (RFC 2744 3.11)', () => {
    const bindings = hex(epa.bindings);
    assert.equal(channelBindingsStruct(bindings).toString('hex'), epa.bindingsStruct);
    assert.equal(channelBindingsHash(bindings).toString('hex'), epa.bindingsHash);
  });

  test('proof, session key and MIC follow from the raw messages', () => {
    const { proof, temp } = split(decoded(message).ntResponse);
    const key = keyOf(epa);
    const { serverChallenge } = decodeChallenge(hex(epa.challenge));
    assert.equal(ntProof(key, serverChallenge, temp).toString('hex'), epa.proof);
    assert.equal(proof.toString('hex'), epa.proof);
    const mic = messageIntegrityCode(
      hex(epa.sessionKey),
      hex(epa.negotiate),
      hex(epa.challenge),
      zeroMic(message),
    );
    assert.equal(mic.toString('hex'), epa.mic);
    assert.equal(micOf(message), epa.mic);
  });

  test('every field and every AV pair is decoded', () => {
    const { user, domain, workstation, lmResponse, ntResponse } = decoded(message);
    assert.deepEqual(
      { user, domain, workstation },
      { user: epa.user, domain: epa.domain, workstation: epa.workstation },
    );
    assert.deepEqual([...lmResponse], Array(24).fill(0));
    const { pairs, timestamp } = split(ntResponse);
    assert.deepEqual(
      pairs.map((pair) => pair.id),
      epa.pairIds,
    );
    assert.equal(timestamp.toString('hex'), epa.timestamp);
    const targetName = Buffer.from(findAv(pairs, AV.TARGET_NAME) ?? []);
    assert.equal(targetName.toString('utf16le'), epa.targetName);
  });

  test('the session key of the response is the published one', () => {
    const blob = split(decoded(message).ntResponse);
    const response = ntlmv2Response({
      key: keyOf(epa),
      serverChallenge: decodeChallenge(hex(epa.challenge)).serverChallenge,
      clientChallenge: blob.clientChallenge,
      timestamp: blob.timestamp,
      targetInfo: blob.temp.subarray(28, -4),
    });
    assert.equal(response.sessionKey.toString('hex'), epa.sessionKey);
  });
});

describe('jborean93/ntlm-auth tests/test_messages.py', () => {
  const { ntlmAuth } = vectors;

  test('the MIC is keyed by the exported session key and covers the NEGOTIATE message', () => {
    const message = hex(ntlmAuth.authenticateWithMic);
    const mic = messageIntegrityCode(
      hex(ntlmAuth.exportedSessionKey),
      hex(ntlmAuth.negotiate),
      hex(ntlmAuth.challenge),
      zeroMic(message),
    );
    assert.equal(mic.toString('hex'), ntlmAuth.mic);
    assert.equal(micOf(message), ntlmAuth.mic);
  });

  test('the proof of the message with a MIC is recomputed from its blob', () => {
    const { temp } = split(decoded(hex(ntlmAuth.authenticateWithMic)).ntResponse);
    const { serverChallenge } = decodeChallenge(hex(ntlmAuth.challenge));
    assert.equal(ntProof(keyOf(ntlmAuth), serverChallenge, temp).toString('hex'), ntlmAuth.proof);
  });

  test('the channel bindings hash is that of the end-point hash, in both messages', () => {
    const bindings = Buffer.concat([
      Buffer.from('tls-server-end-point:'),
      hex(ntlmAuth.endpointHash),
    ]);
    assert.equal(channelBindingsHash(bindings).toString('hex'), ntlmAuth.bindingsHash);
    for (const message of [ntlmAuth.authenticateWithMic, ntlmAuth.authenticateWithoutMic]) {
      const { pairs } = split(decoded(hex(message)).ntResponse);
      const hash = Buffer.from(findAv(pairs, AV.CHANNEL_BINDINGS) ?? []);
      assert.equal(hash.toString('hex'), ntlmAuth.bindingsHash);
    }
  });

  test('a NEGOTIATE message with names is read by the acceptor', () => {
    assert.deepEqual(decodeNegotiate(hex(ntlmAuth.negotiate)), { flags: 0xe28ab231 });
  });
});

describe('MS-NLMP 4.2: messages of the specification', () => {
  const { specification } = vectors;

  test('4.2.4.3: the NTLMv2 challenge carries two pairs', () => {
    const challenge = decodeChallenge(hex(specification.ntlmv2Challenge));
    assert.equal(Buffer.from(challenge.serverChallenge).toString('hex'), '0123456789abcdef');
    assert.deepEqual(
      challenge.targetInfo?.map((pair) => pair.id),
      [AV.NB_DOMAIN_NAME, AV.NB_COMPUTER_NAME],
    );
  });

  test('4.2.4.3: the AUTHENTICATE message with a 72-byte header is decoded', () => {
    const message = decoded(hex(specification.ntlmv2Authenticate));
    const { user, domain, workstation } = message;
    assert.deepEqual([domain, user, workstation], ['Domain', 'User', 'COMPUTER']);
    assert.equal(message.sessionKey.length, 16);
    const key = keyOf({ user, domain, password: 'Password' });
    const { proof, temp } = split(message.ntResponse);
    assert.deepEqual(ntProof(key, hex('0123456789abcdef'), temp), proof);
  });

  test('4.2.2.3: the NTLMv1 challenge is read, and has no target info', () => {
    const challenge = decodeChallenge(hex(specification.ntlmv1Challenge));
    assert.equal(challenge.targetInfo, undefined);
    assert.equal(hasFlag(challenge.flags, FLAG.EXTENDED_SESSIONSECURITY), false);
  });

  test('4.2.2.3: the NTLMv1 response is told by its 24 bytes', () => {
    assert.equal(decoded(hex(specification.ntlmv1Authenticate)).ntResponse.length, 24);
  });
});

describe('messages met in the field', () => {
  const { captured } = vectors;

  test('Samba 4.17.12: flags and order of the AV pairs', () => {
    const challenge = decodeChallenge(hex(captured.sambaChallenge.hex));
    assert.equal(challenge.flags, captured.sambaChallenge.flags);
    assert.deepEqual(
      challenge.targetInfo?.map((pair) => pair.id),
      captured.sambaChallenge.pairIds,
    );
  });

  test('squid 5.7 ntlm_fake_auth: a target name at 0xaaaaaaae is ignored', () => {
    const challenge = decodeChallenge(hex(captured.squidFakeAuthChallenge));
    assert.equal(challenge.flags, 0x00088206);
    assert.equal(challenge.targetInfo, undefined);
  });

  test('a Windows domain controller: six pairs with a timestamp', () => {
    const challenge = decodeChallenge(hex(captured.windowsDcChallenge));
    const ids = challenge.targetInfo?.map((pair) => pair.id);
    assert.deepEqual(ids, [2, 1, 4, 3, 5, 7]);
  });

  test('curl test67, IIS 5: target info without the flag is not read', () => {
    const challenge = decodeChallenge(Buffer.from(captured.iis5ChallengeBase64, 'base64'));
    assert.equal(challenge.flags, 0x00018286);
    assert.equal(challenge.targetInfo, undefined);
  });

  test('NEGOTIATE messages of curl, Windows and go-ntlmssp give their flags', () => {
    assert.equal(decodeNegotiate(hex(captured.curlNegotiate))?.flags, 0x00088206);
    assert.equal(decodeNegotiate(hex(captured.windowsNegotiate))?.flags, 0xe20882b7);
    for (const { flags, hex: message } of vectors.davenportNegotiate) {
      assert.equal(decodeNegotiate(hex(message))?.flags, flags);
    }
  });

  test('curl 7.88.1: a 64-byte header is decoded and its proof verifies', () => {
    const curl = captured.curlAuthenticate;
    const message = decoded(hex(curl.hex));
    const { user, domain, workstation } = message;
    assert.deepEqual([domain, user, workstation], [curl.domain, curl.user, curl.workstation]);
    const { proof, temp } = split(message.ntResponse);
    assert.deepEqual(ntProof(keyOf(curl), hex(curl.serverChallenge), temp), proof);
  });

  test('a UPN stands whole in the user field beside an empty domain', () => {
    const { user, domain, workstation } = decoded(hex(captured.authenticateUpn));
    assert.deepEqual(
      [domain, user, workstation],
      ['', 'vagrant-domain@DOMAIN.LOCAL', 'JBOREAN-LINUX'],
    );
  });

  test('an AUTHENTICATE message without SIGN and SEAL has its pairs in range', () => {
    const { ntResponse, user } = decoded(hex(captured.authenticateNoSign));
    assert.equal(user, 'vagrant');
    assert.deepEqual(
      split(ntResponse).pairs.map((pair) => pair.id),
      [2, 1, 4, 3, 7, 10, 9, 6],
    );
  });
});

for (const exchange of vectors.accepted) {
  test(`${exchange.server}: proof and MIC of an accepted exchange are recomputed`, () => {
    const challenge = decodeChallenge(hex(exchange.challenge));
    const message = hex(exchange.authenticate);
    assert.ok(isMessage(hex(exchange.negotiate), 1));
    const { ntResponse, flags } = decoded(message);
    const { proof, temp, timestamp, clientChallenge } = split(ntResponse);
    const key = keyOf(exchange);
    assert.deepEqual(ntProof(key, challenge.serverChallenge, temp), proof);
    const { sessionKey } = ntlmv2Response({
      key,
      serverChallenge: challenge.serverChallenge,
      clientChallenge,
      timestamp,
      targetInfo: temp.subarray(28, -4),
    });
    assert.equal(sessionKey.toString('hex'), exchange.sessionKey);
    assert.equal(flags, exchange.flags);
    const mic = messageIntegrityCode(
      sessionKey,
      hex(exchange.negotiate),
      hex(exchange.challenge),
      zeroMic(message),
    );
    assert.equal(mic.toString('hex'), micOf(message));
  });
}
