/**
 * What it costs to know a caller by a token (document 001 of the sources): verified each time, as with
 * `cache: off`; 50 tokens in turn on one connection; and one token per connection. Tokens are of RS256,
 * about 800 bytes, and lie in the bytes of a request as they came from the wire.
 */

import { generateKeyPairSync, sign } from 'node:crypto';
import { systemClock } from '../../src/clock.ts';
import { DeadlineWheel } from '../../src/deadlines.ts';
import { ProxyError } from '../../src/errors.ts';
import { parseJwks, type PublicJwk } from '../../src/identity/jwks.ts';
import { CallerCheck } from '../../src/inbound/caller-check.ts';
import { JwtEntry } from '../../src/inbound/jwt-entry.ts';
import { JwtVerifier } from '../../src/inbound/jwt/jwt-verifier.ts';
import { noLog } from '../../src/log/log.ts';
import { REQUEST_FIELD, RequestFields, RequestHead } from '../../src/wire/request-head.ts';
import type { MicroCase } from './micro.ts';

const ISSUER = 'https://idp.example/';
const AUDIENCE = 'bench';
const TOKENS = 50;
const FIELDS = new RequestFields([]);
const LIMITS = { maxBytes: 64 * 1024, maxFields: 100 };
const METERS = {
  requested: (): void => undefined,
  hit: (): void => undefined,
  evicted: (): void => undefined,
  entries: (): void => undefined,
};

export interface BenchIssuer {
  /** The text of its key set. */
  readonly jwks: string;
  /** A token of a subject, one hour long. */
  readonly token: (subject: string) => string;
}

/** An issuer with a key of its own. */
export function createBenchIssuer(): BenchIssuer {
  const { publicKey, privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
  const jwk = { ...publicKey.export({ format: 'jwk' }), kid: 'bench', alg: 'RS256', use: 'sig' };
  const encode = (part: object): string => Buffer.from(JSON.stringify(part)).toString('base64url');
  return {
    jwks: JSON.stringify({ keys: [jwk] }),
    token: (subject) => {
      const exp = Math.floor(Date.now() / 1000) + 3600;
      const more = { scope: 'read write', groups: ['finance', 'reports'], note: 'x'.repeat(150) };
      const claims = { iss: ISSUER, aud: AUDIENCE, sub: subject, exp, ...more };
      const input = `${encode({ alg: 'RS256', kid: 'bench', typ: 'JWT' })}.${encode(claims)}`;
      return `${input}.${sign('sha256', Buffer.from(input), privateKey).toString('base64url')}`;
    },
  };
}

export const BENCH_CLIENT = { issuer: ISSUER, audience: AUDIENCE } as const;

interface Request {
  readonly head: RequestHead;
  readonly buffer: Buffer;
}

function requestOf(token: string): Request {
  const text = `GET / HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${token}\r\n\r\n`;
  const buffer = Buffer.from(text, 'latin1');
  const head = new RequestHead(FIELDS);
  if (head.parse(buffer, 0, buffer.length, LIMITS) <= 0) throw new Error('no head');
  return { head, buffer };
}

function checkWith(mode: 'lru' | 'off', keys: readonly PublicJwk[]): CallerCheck {
  const settings = {
    issuer: ISSUER,
    audience: [AUDIENCE],
    algorithms: ['RS256'] as const,
    cache: { mode, max: 1000 },
  };
  const deadlines = new DeadlineWheel(systemClock);
  const deps = { clock: systemClock, deadlines, log: noLog, meters: METERS, source: undefined };
  const verifier = new JwtVerifier(settings, deps);
  verifier.replaceKeys(keys);
  return new CallerCheck({
    entries: [new JwtEntry(REQUEST_FIELD.authorization, [verifier])],
    takesNone: false,
    challenge: undefined,
    meters: { judged: () => undefined },
  });
}

/** The caller of a request, waited for where he has to be. */
async function identify(check: CallerCheck, one: Request, connection: Connection): Promise<void> {
  let found = check.check(one.head, one.buffer, connection);
  if (!(found instanceof ProxyError) && found.kind === 'undecided') {
    await found.settled;
    found = check.check(one.head, one.buffer, connection);
  }
  if (found instanceof ProxyError || found.kind !== 'jwt') throw new Error('the token is refused');
}

interface Connection {
  readonly remoteAddress: string;
}

/** The three ways, measured in turns. */
export async function createJwtDecoderCases(): Promise<readonly MicroCase[]> {
  const issuer = createBenchIssuer();
  const parsed = parseJwks(issuer.jwks);
  if ('fault' in parsed) throw new Error(parsed.fault);
  const requests = Array.from({ length: TOKENS }, (_, i) => requestOf(issuer.token(`user-${i}`)));
  const cached = checkWith('lru', parsed.keys);
  const off = checkWith('off', parsed.keys);
  const connection: Connection = { remoteAddress: '127.0.0.1' };
  for (const one of requests) await identify(cached, one, connection);
  const hits = (calls: number, tokens: number): void => {
    for (let i = 0; i < calls; i += 1) {
      const one = requests[i % tokens] as Request;
      const found = cached.check(one.head, one.buffer, connection);
      if (found instanceof ProxyError || found.kind !== 'jwt') throw new Error('no hit');
    }
  };
  return [
    {
      name: 'jwt-decoder',
      subjects: [
        { name: 'one token', prepare: (calls) => () => hits(calls, 1) },
        { name: '50 tokens in turn', prepare: (calls) => () => hits(calls, TOKENS) },
        {
          name: 'cache off',
          calls: 2_000,
          prepare: (calls) => async () => {
            for (let i = 0; i < calls; i += 1) {
              await identify(off, requests[i % TOKENS] as Request, connection);
            }
          },
        },
      ],
    },
  ];
}

/** Document 001, without boost. */
export const JWT_DECODER_SOURCE: Readonly<Record<string, string>> = {
  'one token': '0.078 us (640 x)',
  '50 tokens in turn': '0.110 us (460 x)',
  'cache off': '49.9 us',
};
