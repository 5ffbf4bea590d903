/** The two ways to read a caller's socket, and who is trusted by address. */

import assert from 'node:assert/strict';
import { createServer, type Socket } from 'node:net';
import { after, describe, it } from 'node:test';
import { acceptTransport, chooseEngine } from '../../../src/server/raw-socket.ts';
import { createReadBuffers } from '../../../src/transport/transport.ts';
import { RawClient } from '../../support/raw-client.ts';
import { temporaryFolder } from '../../support/temporary-folder.ts';
import { event } from '../../support/waiting.ts';

describe('the choice of a socket engine', () => {
  it('finds the handle to work on the pinned Node', async () => {
    assert.equal(await chooseEngine(), 'handle');
  });
});

describe('a transport of an accepted socket', () => {
  for (const engine of ['handle', 'public'] as const) {
    for (const kind of ['tcp', 'unix'] as const) {
      it(`is read, written, paused and reset (${engine}, ${kind})`, async () => {
        const pauseOnConnect = engine === 'handle';
        const server = createServer({ pauseOnConnect, allowHalfOpen: true });
        const listening = event(server, 'listening');
        const path = `${temporaryFolder()}/raw-${engine}.sock`;
        if (kind === 'tcp') server.listen(0, '127.0.0.1');
        else server.listen(path);
        await listening;
        const accepted = event(server, 'connection');
        // With the handle taken over, the first socket object never ends, nor does waiting for it.
        after(() => void server.close());
        const address = server.address();
        await using client = await RawClient.connect(
          typeof address === 'object' && address !== null
            ? { port: address.port }
            : { socketPath: path },
        );
        const transport = acceptTransport(engine, (await accepted) as Socket, createReadBuffers());
        const got: string[] = [];
        const arrived = Promise.withResolvers<void>();
        const closed = Promise.withResolvers<Error | undefined>();
        transport.owner = {
          received: (buffer, start, end) => {
            got.push(buffer.toString('latin1', start, end));
            arrived.resolve();
            return true;
          },
          drained: () => undefined,
          ended: () => undefined,
          closed: closed.resolve,
        };
        await client.send('question');
        await arrived.promise;
        assert.deepEqual(got, ['question']);
        assert.equal(transport.bytesRead, 8);
        transport.write(Buffer.from('answer'), transport);
        assert.equal((await client.bytes(6)).toString(), 'answer');
        transport.reset();
        await closed.promise;
        assert.equal(transport.closed, true);
        await client.gone();
        client.endWriting();
        const error = await client.closed;
        assert.equal(error === undefined, kind === 'unix');
      });
    }
  }
});
