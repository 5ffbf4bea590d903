/**
 * Hostile answers (hostile-inputs.md E) through a running daemon: what the caller gets, and that the
 * socket it came on carries nothing more. Each runs on an open and on a logged-in socket.
 */

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { MALFORMED, shapes } from '../support/response-shapes.ts';
import { startWorld } from '../flow/http-world.ts';

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

describe('a hostile answer', () => {
  for (const name of Object.keys(MALFORMED)) {
    const row = ROWS[name] ?? (/^(?:status|version)/.test(name) ? 'E12' : 'E2');
    for (const login of [false, true]) {
      it(`${row} ${name}${login ? ' on a logged-in socket' : ''} is contained`, async () => {
        await using world = await startWorld({ login, handler: shapes });
        await using client = await world.connect();
        await client.request('GET /counted');
        assert.equal((await client.response()).status, 200);
        const before = world.upstream.journal.sockets.length;
        await client.request(`GET /malformed/${name}`);
        if (isOneOf(BROKEN_BODY, name)) {
          await assert.rejects(client.response());
          await client.gone();
        } else {
          const { status, body } = await client.response();
          if (isOneOf(DELIVERED, name)) assert.deepEqual([status, body.toString()], [200, 'ok']);
          else assert.equal(status, 502);
        }
        await using next = await world.connect();
        await next.request('GET /counted');
        assert.equal((await next.response()).status, 200);
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
