/**
 * The smallest NTLM initiator, for trying the kit on itself: it makes both messages from the
 * specification with the kit's own hash functions and knows nothing of src/auth.
 */

import { createHmac, randomBytes } from 'node:crypto';
import { bindingsHash, ntHash } from './ntlm-acceptor.ts';
import type { RawClient, RawResponse } from './raw-client.ts';

export interface TestLogin {
  readonly domain: string;
  readonly user: string;
  readonly password: string;
  /** `tls-server-end-point:` data to bind to. */
  readonly bindings?: Uint8Array | undefined;
}

/** A NEGOTIATE message, base64. */
export function testType1(): string {
  const message = Buffer.alloc(40);
  message.write('NTLMSSP\0', 'latin1');
  message.writeUInt32LE(1, 8);
  message.writeUInt32LE(0xa2088207, 12);
  return message.toString('base64');
}

/** An AUTHENTICATE message without MIC for this challenge, base64. */
export function testType3(login: TestLogin, type2: string): string {
  const challenge = Buffer.from(type2, 'base64');
  const at = challenge.readUInt32LE(44);
  const info = challenge.subarray(at, at + challenge.readUInt16LE(40) - 4);
  const owner = Buffer.from(login.user.toUpperCase() + login.domain, 'utf16le');
  const key = createHmac('md5', ntHash(login.password)).update(owner).digest();
  const temp = Buffer.concat([
    Buffer.from('0101000000000000', 'hex'),
    timestampOf(info),
    randomBytes(8),
    Buffer.alloc(4),
    info,
    ...(login.bindings === undefined
      ? []
      : [Buffer.from('0a001000', 'hex'), bindingsHash(login.bindings)]),
    Buffer.alloc(8),
  ]);
  const proof = createHmac('md5', key).update(challenge.subarray(24, 32)).update(temp).digest();
  return encodeType3(login, Buffer.concat([proof, temp])).toString('base64');
}

/** Logs `client` in with GET requests for `target`; returns the last answer. */
export async function logIn(
  client: RawClient,
  login: TestLogin,
  target = '/login',
  fields: Readonly<Record<string, string>> = {},
): Promise<RawResponse> {
  await client.request(`GET ${target}`, { ...fields, Authorization: `NTLM ${testType1()}` });
  const challenged = await client.response();
  const type2 = challenged
    .all('www-authenticate')
    .join(', ')
    .match(/NTLM ([A-Za-z0-9+/=]+)/i)?.[1];
  if (type2 === undefined) return challenged;
  const type3 = testType3(login, type2);
  await client.request(`GET ${target}`, { ...fields, Authorization: `NTLM ${type3}` });
  return client.response();
}

function timestampOf(info: Buffer): Buffer {
  for (let at = 0; at + 4 <= info.length; at += 4 + info.readUInt16LE(at + 2)) {
    if (info.readUInt16LE(at) === 7) return info.subarray(at + 4, at + 12);
  }
  return Buffer.alloc(8);
}

function encodeType3(login: TestLogin, ntResponse: Buffer): Buffer {
  const values = [
    Buffer.alloc(24),
    ntResponse,
    Buffer.from(login.domain, 'utf16le'),
    Buffer.from(login.user, 'utf16le'),
    Buffer.from('KIT', 'utf16le'),
    Buffer.alloc(0),
  ];
  const head = Buffer.alloc(88);
  head.write('NTLMSSP\0', 'latin1');
  head.writeUInt32LE(3, 8);
  let offset = head.length;
  values.forEach((value, index) => {
    head.writeUInt16LE(value.length, 12 + index * 8);
    head.writeUInt16LE(value.length, 14 + index * 8);
    head.writeUInt32LE(offset, 16 + index * 8);
    offset += value.length;
  });
  head.writeUInt32LE(0xa2088205, 60);
  return Buffer.concat([head, ...values]);
}
