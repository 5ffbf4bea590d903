/** Forward listeners over reloads: rules, parents and tunnels. */

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { startDaemon } from '../support/daemon.ts';
import { startScriptedUpstream } from '../support/scripted-upstream.ts';
import { startForward } from './forward-world.ts';

describe('a forward listener over a reload', () => {
  test('D11 uses no connection that the rules of now would not let through', async () => {
    await using world = await startForward({ allow: `['origin.test:*']` });
    await using client = await world.connect();
    const ask = async (): Promise<number> => {
      await client.request(`GET http://origin.test:${world.upstream.port}/`, { Host: 'x' });
      return (await client.response()).status;
    };
    assert.equal(await ask(), 200);
    assert.equal(await ask(), 200);
    assert.equal(world.upstream.journal.sockets.length, 1);
    // A name written out may be on this machine, one that a pattern covers may not.
    const report = await world.daemon.reload((text) => text.replace('origin.test:*', '*.test:*'));
    assert.equal(report.result, 'ok');
    assert.equal(await ask(), 403);
    await world.upstream.saw(({ sockets }) => sockets.every(({ open }) => !open), 'all closed');
    await world.daemon.reload((text) => text.replace('*.test:*', 'origin.test:*'));
    assert.equal(await ask(), 200);
  });

  test('keeps a tunnel that is open, and opens no other one', async () => {
    await using world = await startForward();
    await using tunnel = await world.tunnel();
    await world.daemon.reload((text) => text.replace(/allow: \[[^\]]*\]/, "allow: ['*:443']"));
    await tunnel.request('GET /through', { Host: world.authority });
    assert.equal((await tunnel.response()).status, 200);
    await assert.rejects(world.tunnel(), /CONNECT: 403/);
  });

  test('goes through the parent of now, and leaves the one of before', async () => {
    await using first = await startScriptedUpstream({ scheme: 'none' });
    await using second = await startScriptedUpstream({ scheme: 'none' });
    await using daemon = await startDaemon({
      config: `version: 1
admin: { listen: 127.0.0.1:0 }
upstreams:
  parent: { proxy: 'http://127.0.0.1:${first.port}' }
listeners: [ { name: egress, listen: 127.0.0.1:0, mode: forward, via: [parent] } ]
`,
    });
    const ask = async (): Promise<number> =>
      (await daemon.ask('GET http://somewhere.test/', { Host: 'somewhere.test' })).status;
    assert.equal(await ask(), 200);
    assert.equal(await ask(), 200);
    const report = await daemon.reload((text) => text.replace(`${first.port}`, `${second.port}`));
    assert.deepEqual(report.upstreams.changed, ['parent']);
    await first.saw(({ sockets }) => sockets.every(({ open }) => !open), 'the first one left');
    assert.equal(await ask(), 200);
    assert.deepEqual(
      [first, second].map(({ requests }) => requests.length),
      [2, 1],
    );
    const added = await daemon.reload((text) =>
      text.replace('via: [parent]', 'via: [parent, direct]'),
    );
    assert.deepEqual(added.upstreams.changed, []);
    assert.equal(await ask(), 200);
    assert.equal(second.journal.sockets.length, 1);
  });

  test('leaves the parent of before also on the way to an origin that stays', async () => {
    await using first = await startScriptedUpstream({ scheme: 'none' });
    await using second = await startScriptedUpstream({ scheme: 'none' });
    await using daemon = await startDaemon({
      config: `version: 1
admin: { listen: 127.0.0.1:0 }
upstreams:
  parent: { proxy: 'http://127.0.0.1:${first.port}' }
  web: { url: 'http://web.test', via: [parent] }
listeners: [ { name: egress, listen: 127.0.0.1:0, mode: forward, origins: [web] } ]
`,
    });
    const ask = async (): Promise<number> =>
      (await daemon.ask('GET http://web.test/', { Host: 'web.test' })).status;
    assert.equal(await ask(), 200);
    await daemon.reload((text) => text.replace(`${first.port}`, `${second.port}`));
    await first.saw(({ sockets }) => sockets.every(({ open }) => !open), 'the first one left');
    assert.equal(await ask(), 200);
    assert.equal(second.requests.length, 1);
  });

  test('D11 reaches no listener that came with it, and no longer spares one that went', async () => {
    await using world = await startForward();
    const ask = async (port: number): Promise<number> => {
      const line = `GET http://127.0.0.1:${port}/`;
      return (await world.daemon.ask(line, { Host: 'x' })).status;
    };
    const more = ', { name: more, listen: 127.0.0.1:0, mode: forward } ]\n';
    await world.daemon.reload((text) => text.replace(/ \]\n$/, more));
    const { port } = world.daemon.address('more');
    assert.equal(await ask(port), 403);
    await world.daemon.reload((text) => text.replace(more, ' ]\n'));
    assert.equal(await ask(port), 502);
  });

  test('a listener of the other mode on the same socket serves its open connections', async () => {
    await using upstream = await startScriptedUpstream({ scheme: 'none' });
    await using daemon = await startDaemon({
      config: `version: 1
admin: { listen: 127.0.0.1:0 }
upstreams: { web: { url: 'http://127.0.0.1:${upstream.port}' } }
listeners:
  - { name: one, listen: 127.0.0.1:0, routes: [ { upstream: web } ] }
`,
    });
    await using client = await daemon.connect();
    await client.request('GET /', { Host: daemon.authority() });
    assert.equal((await client.response()).status, 200);
    await daemon.reload((text) =>
      text.replace('routes: [ { upstream: web } ]', "mode: forward, allow: ['127.0.0.1:*']"),
    );
    await client.request(`GET http://127.0.0.1:${upstream.port}/`, { Host: 'x' });
    assert.equal((await client.response()).status, 200);
    await client.request('GET /', { Host: daemon.authority() });
    assert.equal((await client.response()).status, 400);
  });
});
