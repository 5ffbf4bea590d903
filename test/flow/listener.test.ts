/** Listeners: what they open, what they refuse to replace, and how they end. */

import assert from 'node:assert/strict';
import { mkdtempSync, statSync, writeFileSync, existsSync } from 'node:fs';
import { createServer, type Server } from 'node:net';
import { join } from 'node:path';
import { spawnSync } from 'node:child_process';
import { describe, it } from 'node:test';
import { startDaemon } from '../support/daemon.ts';
import { RawClient } from '../support/raw-client.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { event, Gate, within } from '../support/waiting.ts';
import { startWorld } from './http-world.ts';

const socketPath = (): string => join(mkdtempSync(join(temporaryFolder(), 'listener-')), 's.sock');

async function listenOn(path: string): Promise<Server & AsyncDisposable> {
  const server = createServer((socket) => socket.destroy());
  const listening = event(server, 'listening');
  server.listen(path);
  await listening;
  return server;
}

describe('a unix socket', () => {
  it('has the mode of the configuration, and is gone after the end', async () => {
    for (const [keys, mode] of [
      ['forwarded: {}', 0o660],
      ["socketMode: '0600'", 0o600],
      ["socketMode: '0666'", 0o666],
    ] as const) {
      const path = socketPath();
      {
        await using world = await startWorld({ listen: `'unix:${path}'`, listener: keys });
        assert.equal(statSync(path).mode & 0o777, mode);
        await using client = await RawClient.connect({ socketPath: path });
        await client.request('GET /');
        assert.equal((await client.response()).status, 200);
        assert.equal(world.upstream.requests.length, 1);
      }
      assert.equal(existsSync(path), false);
    }
  });

  it('that a killed process left behind is replaced', async () => {
    const path = socketPath();
    const script = `require('net').createServer().listen(${JSON.stringify(path)}, () => process.kill(process.pid, 'SIGKILL'))`;
    spawnSync(process.execPath, ['-e', script]);
    assert.ok(statSync(path).isSocket());
    await using world = await startWorld({ listen: `'unix:${path}'` });
    await using client = await RawClient.connect({ socketPath: path });
    await client.request('GET /');
    assert.equal((await client.response()).status, 200);
    assert.equal(world.upstream.requests.length, 1);
  });

  it('that somebody answers on stays, and so does a file that is no socket', async () => {
    const path = socketPath();
    await using live = await listenOn(path);
    await assert.rejects(startWorld({ listen: `'unix:${path}'` }), /EADDRINUSE/);
    assert.ok(live.listening);
    assert.ok(statSync(path).isSocket());
    const file = socketPath();
    writeFileSync(file, 'precious');
    await assert.rejects(startWorld({ listen: `'unix:${file}'` }), /EADDRINUSE/);
    assert.ok(statSync(file).isFile());
  });
});

describe('listeners', () => {
  it('open all or none: one that cannot open closes the others', async () => {
    const [free, taken] = [socketPath(), socketPath()];
    await using live = await listenOn(taken);
    const route = 'routes: [ { upstream: origin } ]';
    const started = startDaemon({
      config: `version: 1
admin: { listen: 127.0.0.1:0 }
upstreams: { origin: { url: 'http://127.0.0.1:1' } }
listeners:
  - { name: a, listen: 'unix:${free}', mode: reverse, ${route} }
  - { name: b, listen: [127.0.0.1:0, 'unix:${taken}'], mode: reverse, ${route} }
`,
    });
    await assert.rejects(started, /EADDRINUSE/);
    assert.equal(existsSync(free), false);
    assert.ok(live.listening);
  });

  it('on TCP and a unix socket at once serve the same routes', async () => {
    const path = socketPath();
    await using world = await startWorld({ listen: `[ 127.0.0.1:0, 'unix:${path}' ]` });
    await using unix = await RawClient.connect({ socketPath: path });
    await unix.request('GET /unix');
    assert.equal((await unix.response()).status, 200);
    assert.equal((await world.daemon.ask('GET /tcp')).status, 200);
    assert.equal(world.upstream.journal.sockets.length, 1);
  });
});

describe('draining', () => {
  it('lets the request in work finish, and closes idle connections', async () => {
    const gate = new Gate();
    await using world = await startWorld({
      handler: async ({ target }) => {
        if (target === '/slow') await gate.pass();
        return { body: target };
      },
    });
    await using idle = await world.connect();
    await idle.request('GET /');
    await idle.response();
    await using busy = await world.connect();
    await busy.send(
      'GET /slow HTTP/1.1\r\nHost: localhost\r\n\r\nGET /next HTTP/1.1\r\nHost: localhost\r\n\r\n',
    );
    await world.upstream.saw(
      ({ sockets }) =>
        sockets.some(({ requests }) => requests.some(({ target }) => target === '/slow')),
      'the slow request',
    );
    const address = world.daemon.address();
    const drained = world.daemon.app.drain();
    assert.equal((await idle.untilEnd()).length, 0);
    await assert.rejects(RawClient.connect(address), /ECONNREFUSED/);
    gate.open();
    const answer = await busy.response();
    assert.deepEqual([answer.body.toString(), answer.field('connection')], ['/slow', 'close']);
    assert.equal((await busy.untilEnd()).length, 0);
    busy.endWriting();
    await within(drained, 'the end of draining');
    assert.ok(world.upstream.requests.every(({ target }) => target !== '/next'));
  });

  it('gives what takes longer than the grace period no more time', async () => {
    await using world = await startWorld({
      top: 'shutdown: { grace: 200ms }',
      handler: () => ({ run: async (wire) => (await wire.gone, 'reset') }),
    });
    await using busy = await world.connect();
    await busy.request('GET /');
    await world.upstream.saw(({ sockets }) => sockets[0]?.requests.length === 1, 'the request');
    await within(world.daemon.app.drain(), 'the end of draining');
    await busy.gone();
  });

  it('answers a head that is half here, and a body that still comes', async () => {
    await using world = await startWorld();
    await using half = await world.connect();
    await half.send('GET /half HTTP/1.1\r\n');
    await using upload = await world.connect();
    await upload.send('POST /up HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\nstart');
    await world.upstream.saw(({ sockets }) => sockets[0]?.requests.length === 1, 'the upload');
    const drained = world.daemon.app.drain();
    await half.send('Host: localhost\r\n\r\n');
    await upload.send('rest.');
    for (const client of [half, upload]) {
      const { status, field } = await client.response();
      assert.deepEqual([status, field('connection')], [200, 'close']);
      client.endWriting();
    }
    await within(drained, 'the end of draining');
  });

  it('accepts on for shutdown.delay, and is not ready at once', async () => {
    await using world = await startWorld({ top: 'shutdown: { delay: 400ms }' });
    const address = world.daemon.address();
    const drained = world.daemon.app.drain();
    assert.equal((await world.daemon.admin('GET /readyz')).status, 503);
    const { status } = await world.daemon.ask('GET /');
    assert.equal(status, 200);
    await within(drained, 'the end of draining');
    await assert.rejects(RawClient.connect(address), /ECONNREFUSED/);
  });
});
