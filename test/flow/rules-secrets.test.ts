/** Nothing that the daemon says to anybody holds a secret, a token or a digest of one. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { describe, test } from 'node:test';
import { testCertificate } from '../support/certificates.ts';
import { ntHash } from '../support/ntlm-acceptor.ts';
import { fieldValues } from '../support/strict-http.ts';
import type { ScriptedUpstreamOptions } from '../support/upstream-options.ts';
import { patterned, startWorld, type World } from './login-world.ts';

const CANARY = 'C4nary-Passw0rd-äöü-7f3a';
const ACCOUNTS = { 'LAB\\alice': CANARY, 'LAB\\bob': 'bob-secret' };
const CALLER_TOKEN = 'c4llers-own-bearer-51b2';

/** The password in every form that text may carry, and everything that went over the wire. */
function canaries(world: World): string[] {
  const bytes = [Buffer.from(CANARY), Buffer.from(CANARY, 'utf16le'), ntHash(CANARY)];
  const digests = bytes.flatMap((one) =>
    ['md5', 'sha1', 'sha256'].map((name) => createHash(name).update(one).digest()),
  );
  const all = [...bytes, ...digests];
  const texts = all.flatMap((one) => [
    one.toString('hex'),
    one.toString('base64').replace(/=+$/, ''),
  ]);
  const sent = world.upstream.requests.flatMap(({ fields }) =>
    fieldValues(fields, 'authorization'),
  );
  const tokens = sent
    .map((value) => value.replace(/^\w+ /, ''))
    .filter((token) => token.length > 8);
  return [CANARY, JSON.stringify(CANARY).slice(1, -1), CALLER_TOKEN, ...texts, ...tokens];
}

const OUTPUTS = [
  'GET /metrics',
  'GET /',
  'GET /api/status',
  'GET /api/pools',
  'GET /api/config',
  'GET /readyz',
  'POST /api/principals/alice/flush',
  'POST /api/pools/origin/drain',
];

const ORIGINS: Readonly<Record<string, ScriptedUpstreamOptions>> = {
  'lets everybody in': {},
  'refuses every login': { login: { type3: 'bare' } },
  'sends malformed challenges': { login: { mutateType2: (token) => token.subarray(0, 30) } },
  'breaks the protocol': {
    handler: () => ({ raw: `HTTP/1.1 2x0 ${CANARY}\r\n\r\n`, after: 'fin' }),
  },
  'ends in the middle of a login': { login: { type1: 'reset' } },
  'says 407': {
    handler: () => ({ status: 407, fields: [['Proxy-Authenticate', `NTLM ${CANARY}`]] }),
  },
  'forgets logins': { forgetAfter: 1 },
  'has a wrong certificate': { tls: { certificate: testCertificate() } },
};

describe('secrets', () => {
  for (const [name, upstream] of Object.entries(ORIGINS)) {
    test(`R46 no output holds a secret in front of an origin that ${name}`, async () => {
      await using world = await startWorld({
        upstream: { accounts: ACCOUNTS, ...upstream },
        secrets: { alice: CANARY },
      });
      const texts: string[] = [];
      const fields = { Authorization: `Bearer ${CALLER_TOKEN}`, Accept: 'application/json' };
      for (let n = 0; n < 5; n += 1) {
        for (const path of ['x', `x?password=${CANARY.slice(0, 10)}`]) {
          const answer = await world.ask('alice', n % 2 === 0 ? 'GET' : 'POST', {
            path,
            fields,
            ...(n % 2 === 0 ? {} : { body: patterned(70_000) }),
          });
          const lines = answer.fields.map((pair) => pair.join(': '));
          texts.push(
            `${answer.status} ${answer.reason}\n${lines.join('\n')}\n${answer.body.toString()}`,
          );
        }
      }
      for (const line of OUTPUTS) {
        const answer = await world.daemon.admin(line);
        texts.push(
          `${answer.fields.map((pair) => pair.join(': ')).join('\n')}\n${answer.body.toString()}`,
        );
      }
      await world.daemon.app.close();
      texts.push(world.daemon.logText);
      assert.ok(world.daemon.logText.length > 0);
      const searched = canaries(world);
      assert.ok(searched.length > 25);
      for (const [n, text] of texts.entries()) {
        for (const canary of searched)
          assert.ok(!text.includes(canary), `output ${n} holds ${canary}`);
      }
      // No query reaches a log either.
      assert.ok(!world.daemon.logText.includes('password='));
    });
  }

  test('R46 a configuration that is refused names no secret', async () => {
    const refused = startWorld({ secrets: { alice: '' }, guard: 'rejections: 0' });
    await assert.rejects(refused, (error: Error) => {
      assert.match(error.message, /rejections/);
      return !error.message.includes('bob-secret');
    });
  });
});
