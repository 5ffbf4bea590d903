/** R39: a hop that refuses a Kerberos token because it has not asked on that connection gets another one. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import test from 'node:test';
import { startDaemon, type TestDaemon } from '../support/daemon.ts';
import { kdcFile, REALM } from './kdc.ts';
import { labKeytab, useKerberosLab } from './kerberos-world.ts';
import { labRequest } from './lab-daemon.ts';
import { join } from 'node:path';
import type { LabFacts } from './lab.ts';

/** Takes any token, but only on a connection where it has asked before; keeps what came. */
async function startAsking(
  tokens: string[],
  takes: boolean,
): Promise<{ server: Server; port: number }> {
  const asked = new WeakSet<object>();
  const server = createServer((request, response) => {
    const credentials = request.headers.authorization;
    if (credentials !== undefined) tokens.push(credentials);
    if (credentials !== undefined && asked.has(request.socket) && takes) {
      response.end('served');
      return;
    }
    asked.add(request.socket);
    response.writeHead(401, { 'WWW-Authenticate': 'Negotiate' }).end();
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  assert.ok(typeof address === 'object' && address !== null);
  return { server, port: address.port };
}

const start = (lab: LabFacts, port: number): Promise<TestDaemon> =>
  startDaemon({
    config: `version: 1
kerberos: { config: '${kdcFile.krb5Conf(join(lab.folder, 'kdc'))}' }
principals: { alice: { kerberos: 'alice@${REALM}', keytab: '${labKeytab(lab, 'alice')}' } }
upstreams: { web: { url: 'http://localhost:${port}', auth: { principal: alice, schemes: negotiate } } }
listeners: [{ name: lab, listen: '127.0.0.1:0', routes: [{ upstream: web }] }]
`,
  });

test('a token that came before the question is followed by one that comes after', async (t) => {
  const lab = await useKerberosLab(t);
  if (lab === undefined) return;
  const tokens: string[] = [];
  const { server, port } = await startAsking(tokens, true);
  t.after(() => server.close());
  await using daemon = await start(lab, port);
  const first = await labRequest(daemon.address().port, '/');
  assert.deepEqual([first.status, first.body], [200, 'served']);
  // Refused, settled, and the request's own; each is used once (R32).
  assert.equal(tokens.length, 3);
  assert.equal((await labRequest(daemon.address().port, '/')).status, 200);
  assert.equal(tokens.length, 4);
  assert.equal(new Set(tokens).size, 4);
});

test('a hop that refuses that one too has rejected the credential', async (t) => {
  const lab = await useKerberosLab(t);
  if (lab === undefined) return;
  const tokens: string[] = [];
  const { server, port } = await startAsking(tokens, false);
  t.after(() => server.close());
  await using daemon = await start(lab, port);
  const answer = await labRequest(daemon.address().port, '/');
  assert.equal(answer.status, 502);
  assert.match(answer.body, /credential-rejected/);
  assert.equal(tokens.length, 2);
});
