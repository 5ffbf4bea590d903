/**
 * Hostile answers (hostile-inputs.md E) through a running daemon: what the caller gets, and that the
 * socket it came on carries nothing more. Each runs on an open and on a logged-in socket.
 */

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { MALFORMED, shapes } from '../support/response-shapes.ts';
import { startWorld, type World } from '../flow/http-world.ts';

/** Rows of `MALFORMED` whose head is sound: the answer breaks off within its body. */
const BROKEN_BODY = ['chunk-hex-prefix', 'chunk-no-crlf', 'chunk-bare-lf'] as const;
const DELIVERED = ['two-answers'] as const;

const isOneOf = (names: readonly string[], name: string): boolean => names.includes(name);

const ROWS: Readonly<Record<string, string>> = {
  'te-tab': 'E1',
  'te-gzip': 'E2',
  'length-and-te': 'E2',
  'length-twice': 'E2',
  'unasked-101': 'E8',
  'many-interim': 'E9',
  garbage: 'E12',
  'bare-lf': 'E12',
  'obs-fold': 'E14',
  'bare-cr': 'E14',
  nul: 'E14',
  'large-head': 'E15',
  'many-fields': 'E15',
};

const WAYS = ['HTTP/1.1', 'HTTP/2'] as const;

/** What a caller gets: a status, or that the answer broke off. */
async function ask(world: World, way: (typeof WAYS)[number], path: string): Promise<Got> {
  if (way === 'HTTP/2') {
    await using client = await world.connectHttp2();
    const { status, body, rstCode } = await client.ask(`GET ${path}`);
    return rstCode === 0 ? { status, text: body.toString() } : 'broken';
  }
  await using client = await world.connect();
  await client.request(`GET ${path}`);
  try {
    const { status, body } = await client.response();
    return { status, text: body.toString() };
  } catch {
    await client.gone();
    return 'broken';
  }
}

type Got = 'broken' | { readonly status: number; readonly text: string };

const isWhole = (got: Got, status: number): boolean => got !== 'broken' && got.status === status;

describe('a hostile answer', () => {
  for (const name of Object.keys(MALFORMED)) {
    const row = ROWS[name] ?? (/^(?:status|version)/.test(name) ? 'E12' : 'E2');
    for (const [login, way] of [false, true].flatMap((yes) =>
      WAYS.map((one) => [yes, one] as const),
    )) {
      const where = login ? ' on a logged-in socket' : '';
      it(`${row} ${name}${where} is contained (${way})`, async () => {
        await using world = await startWorld({ login, listener: 'http2: true', handler: shapes });
        assert.ok(isWhole(await ask(world, way, '/counted'), 200));
        const before = world.upstream.journal.sockets.length;
        const got = await ask(world, way, `/malformed/${name}`);
        if (isOneOf(BROKEN_BODY, name)) assert.equal(got, 'broken');
        else if (isOneOf(DELIVERED, name)) assert.deepEqual(got, { status: 200, text: 'ok' });
        else assert.ok(isWhole(got, 502));
        assert.ok(isWhole(await ask(world, way, '/counted'), 200));
        assert.equal(world.upstream.journal.sockets.length, before + 1);
      });
    }
  }

  it('E15 with a Set-Cookie of 1 MB is 502', async () => {
    await using world = await startWorld({
      handler: () => ({ fields: [['Set-Cookie', `a=${'x'.repeat(1 << 20)}`]], body: 'ok' }),
    });
    assert.equal((await world.daemon.ask('GET /')).status, 502);
  });

  it('E15 with 60 KiB of fields, as Kerberos has them, passes', async () => {
    await using world = await startWorld({
      handler: () => ({ fields: [['Set-Cookie', `a=${'x'.repeat(60 << 10)}`]], body: 'ok' }),
    });
    assert.equal((await world.daemon.ask('GET /')).status, 200);
  });

  it('E18 of 407 is 502 without its challenge', async () => {
    await using world = await startWorld({ handler: shapes });
    const { status, field } = await world.daemon.ask('GET /proxy-auth');
    assert.deepEqual([status, field('proxy-authenticate')], [502, undefined]);
    assert.match(field('proxy-status') ?? '', /received-status=407/);
  });

  it('E16 with a line break in nothing of ours: rewritten fields stay one line', async () => {
    await using world = await startWorld({
      route: 'rewriteCookies: true',
      handler: ({ field }) => ({
        status: 302,
        fields: [['Location', `http://${field('host') ?? ''}/%0d%0aX-Evil:%201`]],
      }),
    });
    const { field } = await world.daemon.ask('GET /');
    assert.equal(field('x-evil'), undefined);
    assert.match(field('location') ?? '', /\/%0d%0aX-Evil:%201$/);
  });
});
