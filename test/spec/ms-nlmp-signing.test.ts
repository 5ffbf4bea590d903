/** MS-NLMP 3.4: RC4, key exchange, signing and sealing keys, signatures (values of 4.2.4). */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import { FLAG } from '../../src/auth/ntlm/fields.ts';
import { decodeAuthenticate } from '../../src/auth/ntlm/messages.ts';
import { hmacMd5, ntowfv1, ntowfv2 } from '../../src/auth/ntlm/ntlmv2.ts';
import { rc4 } from '../../src/auth/ntlm/rc4.ts';
import { NtlmSigner, sealKey, signKey, type Direction } from '../../src/auth/ntlm/signing.ts';
import { hex, readVectors } from './vectors.ts';

type SealKeys = Readonly<Record<'128' | '56' | '40', string>>;

const vectors = readVectors('ntlm-signing.json') as {
  rc4: { key: string; plain: string; cipher: string }[];
  specification: {
    sessionKey: string;
    keyExchangeKey: string;
    encryptedSessionKey: string;
    clientSignKey: string;
    serverSignKey: string;
    clientSealKeys: SealKeys;
    serverSealKeys: SealKeys;
    plain: string;
    sealed: string;
    wrapSignature: string;
  };
  mechListMic: {
    mechTypes: string;
    sessionKey: string;
    client: string;
    server: string;
    clientWithoutKeyExchange: string;
  };
};

const { ntlmAuth } = readVectors('ntlm-messages.json') as {
  ntlmAuth: {
    user: string;
    domain: string;
    password: string;
    exportedSessionKey: string;
    authenticateWithMic: string;
    authenticateWithoutMic: string;
  };
};

const OUT: Direction = 'client-to-server';
const BACK: Direction = 'server-to-client';

describe('RC4', () => {
  for (const { key, plain, cipher } of vectors.rc4) {
    test(`${key}: ${plain}, and back`, () => {
      assert.equal(rc4(Buffer.from(key), Buffer.from(plain)).toString('hex'), cipher);
      assert.equal(rc4(Buffer.from(key), hex(cipher)).toString(), plain);
    });
  }

  test('no data costs no key stream', () => {
    assert.equal(rc4(hex('00'), hex('')).length, 0);
  });
});

describe('key exchange', () => {
  const { specification } = vectors;

  test('the exported session key crosses the wire under the key exchange key', () => {
    const encrypted = rc4(hex(specification.keyExchangeKey), hex(specification.sessionKey));
    assert.equal(encrypted.toString('hex'), specification.encryptedSessionKey);
  });

  for (const name of ['authenticateWithMic', 'authenticateWithoutMic'] as const) {
    test(`the session key field of ntlm-auth's ${name}`, () => {
      const message = decodeAuthenticate(hex(ntlmAuth[name])) ?? assert.fail('not decoded');
      const key = ntowfv2(ntowfv1(ntlmAuth.password), ntlmAuth.user, ntlmAuth.domain);
      const keyExchangeKey = hmacMd5(key, message.ntResponse.subarray(0, 16));
      const exported = rc4(keyExchangeKey, message.sessionKey);
      assert.equal(exported.toString('hex'), ntlmAuth.exportedSessionKey);
    });
  }
});

describe('keys of 3.4.5', () => {
  const { specification } = vectors;
  const key = hex(specification.sessionKey);

  test('SIGNKEY differs by direction', () => {
    assert.equal(signKey(key, OUT).toString('hex'), specification.clientSignKey);
    assert.equal(signKey(key, BACK).toString('hex'), specification.serverSignKey);
  });

  for (const [bits, flags] of [
    ['128', FLAG.KEY_128 | FLAG.KEY_56],
    ['56', FLAG.KEY_56],
    ['40', 0],
  ] as const) {
    test(`SEALKEY of ${bits} bits`, () => {
      const hexOf = (direction: Direction): string =>
        sealKey(key, flags >>> 0, direction).toString('hex');
      assert.equal(hexOf(OUT), specification.clientSealKeys[bits]);
      assert.equal(hexOf(BACK), specification.serverSealKeys[bits]);
    });
  }

  test('a wrapped message: its checksum takes the key stream behind the text', () => {
    const plain = hex(specification.plain);
    const checksum = hmacMd5(signKey(key, OUT), hex('00000000'), plain).subarray(0, 8);
    const stream = rc4(sealKey(key, FLAG.KEY_128, OUT), Buffer.concat([plain, checksum]));
    assert.equal(stream.subarray(0, plain.length).toString('hex'), specification.sealed);
    assert.equal(
      `01000000${stream.subarray(plain.length).toString('hex')}00000000`,
      specification.wrapSignature,
    );
  });
});

describe('signatures', () => {
  const fixed = vectors.mechListMic;
  const message = hex(fixed.mechTypes);
  const flags = (FLAG.SIGN | FLAG.EXTENDED_SESSIONSECURITY | FLAG.KEY_128) >>> 0;
  const exchanged = new NtlmSigner(hex(fixed.sessionKey), (flags | FLAG.KEY_EXCH) >>> 0);

  test('with key exchange the checksum is encrypted', () => {
    assert.equal(exchanged.sign(OUT, message).toString('hex'), fixed.client);
    assert.equal(exchanged.sign(BACK, message).toString('hex'), fixed.server);
  });

  test('without it, it is not', () => {
    const plain = new NtlmSigner(hex(fixed.sessionKey), flags);
    assert.equal(plain.sign(OUT, message).toString('hex'), fixed.clientWithoutKeyExchange);
  });

  test('verify takes the signature of its direction, whole and unchanged', () => {
    const signature = hex(fixed.server);
    assert.equal(exchanged.verify(BACK, message, signature), true);
    assert.equal(exchanged.verify(OUT, message, signature), false);
    assert.equal(exchanged.verify(BACK, message.subarray(1), signature), false);
    assert.equal(exchanged.verify(BACK, message, signature.subarray(0, 15)), false);
    assert.equal(exchanged.verify(BACK, message, Buffer.concat([signature, hex('00')])), false);
    for (let at = 0; at < signature.length; at += 1) {
      const changed = Buffer.from(signature);
      changed[at] = (changed[at] ?? 0) ^ 1;
      assert.equal(exchanged.verify(BACK, message, changed), false, `byte ${at}`);
    }
  });
});
