/** `explain` against scripted servers: the ways that it takes, the legs that it tells, and what it says of each fault. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { QuestionError } from '../../src/explain/way.ts';
import { testCertificate } from '../support/certificates.ts';
import { type Asked, type Explained, explained } from '../support/explaining.ts';
import { startScriptedParent } from '../support/scripted-parent.ts';
import { type ScriptedUpstream, startScriptedUpstream } from '../support/scripted-upstream.ts';

const SECRETS = {
  ALICE: 'alice-secret',
  PAT: 'pat-secret',
  WRONG: 'not the password',
  HASH: '00112233445566778899aabbccddeeff',
};

const PRINCIPALS = `version: 1
principals:
  alice: { username: 'LAB\\alice', password: { env: ALICE } }
  pat: { username: 'LAB\\pat', password: { env: PAT } }
  wrong: { username: 'LAB\\alice', password: { env: WRONG } }
  hashed: { username: alice, ntHash: { env: HASH } }
  caller: { from: client }
`;

const NTLM = 'principal: alice, schemes: [ntlm]';
const BASIC = 'principal: alice, schemes: [basic], dangerousPlaintextBasic: true';

/** Asks for `path` of an upstream at `origin`. */
function ask(
  origin: ScriptedUpstream,
  path: string,
  { auth = NTLM, more = '', ...asked }: Partial<Asked> & { auth?: string; more?: string } = {},
): Promise<Explained> {
  const login = auth === '' ? '' : `, auth: { ${auth} }`;
  const config = `${PRINCIPALS}upstreams:
  app: { url: '${origin.url}/base'${login}${more} }
listeners:
  - { name: api, listen: 127.0.0.1:8080, routes: [{ path: /a/, upstream: app, stripPrefix: true }] }
`;
  return explained({ secrets: SECRETS, url: `${origin.url}${path}`, ...asked, config });
}

const legs = ({ requests }: Explained): (string | number | null)[][] =>
  requests.map(({ hop, method, target, credentials, status }) => [
    hop,
    method,
    target,
    ...credentials.map(({ field, scheme }) => `${field}: ${scheme}`),
    status,
  ]);

describe('explain', () => {
  test('tells each leg of a login, and the answer', async () => {
    await using origin = await startScriptedUpstream();
    const told = await ask(origin, '/base/x?q=1');
    assert.deepEqual(legs(told), [
      ['origin', 'HEAD', '/base/x?q=1', 'Authorization: NTLM', 401],
      ['origin', 'HEAD', '/base/x?q=1', 'Authorization: NTLM', 200],
      ['origin', 'GET', '/base/x?q=1', 200],
    ]);
    const [login] = told.logins;
    assert.deepEqual(
      [login?.principal, login?.mechanism, login?.spn, login?.channelBinding],
      ['alice', 'ntlm', 'HTTP/127.0.0.1', 'none'],
    );
    assert.deepEqual([told.report.ok, told.report.status, told.report.error], [true, 200, null]);
    assert.match(
      told.text,
      /Authorization: NTLM \(token of \d+ bytes\)\n {4}401, offers NTLM \(token/,
    );
    assert.match(told.text, /\nok: status 200\n$/);
  });

  test('takes another principal at the origin', async () => {
    await using origin = await startScriptedUpstream();
    const { report, text } = await ask(origin, '/x', { principal: 'wrong' });
    assert.deepEqual(
      [report.ok, report.status, report.error?.code, report.error?.hop],
      [false, 401, 'credential-rejected', 'origin'],
    );
    assert.match(text, /\n {2}- wrong password, /);
    assert.equal(origin.count('type3'), 1);
  });

  test('goes as a request of a reverse listener', async () => {
    await using origin = await startScriptedUpstream();
    const told = await ask(origin, '', { as: 'api', url: 'http://127.0.0.1:8080/a/x' });
    assert.deepEqual(legs(told).at(-1), ['origin', 'GET', '/base/x', 200]);
    const lost = await ask(origin, '', { as: 'api', url: 'http://127.0.0.1:8080/b/x' });
    assert.deepEqual([lost.report.error?.code, lost.report.steps], ['no-route', []]);
    const elsewhere = await ask(origin, '', { as: 'api', url: 'http://elsewhere/a/x' });
    assert.equal(elsewhere.report.error?.code, 'misdirected');
    const bare = await ask(origin, '', { as: 'api', url: 'http://127.0.0.1:8080/a' });
    assert.deepEqual([bare.report.status, bare.report.ok], [308, true]);
  });

  test('asks a URL of no upstream plainly, and says so', async () => {
    await using origin = await startScriptedUpstream();
    await using other = await startScriptedUpstream({ scheme: 'none' });
    const told = await ask(origin, '', { url: `${other.url}/x` });
    assert.deepEqual(legs(told), [['origin', 'GET', '/x', 200]]);
    assert.match(told.text, /no upstream of the configuration has this origin/);
    await using asking = await startScriptedUpstream();
    const refused = await ask(origin, '', { url: `${asking.url}/x` });
    assert.deepEqual([refused.report.ok, refused.report.status], [false, 401]);
    assert.match(refused.text, /asks for a login, and none is configured for it/);
  });

  test('logs in where only the request itself is challenged', async () => {
    await using origin = await startScriptedUpstream({ open: ({ method }) => method === 'HEAD' });
    const told = await ask(origin, '/x');
    assert.deepEqual(legs(told), [
      ['origin', 'HEAD', '/x', 'Authorization: NTLM', 200],
      ['origin', 'GET', '/x', 401],
      ['origin', 'GET', '/x', 'Authorization: NTLM', 401],
      ['origin', 'GET', '/x', 'Authorization: NTLM', 200],
    ]);
    assert.equal(told.report.ok, true);
  });

  test('names the origin where the password that the request carried is refused', async () => {
    await using origin = await startScriptedUpstream({ open: ({ method }) => method === 'HEAD' });
    const { report } = await ask(origin, '/x', { principal: 'wrong' });
    assert.deepEqual(
      [report.error?.code, report.error?.hop, report.status],
      ['credential-rejected', 'origin', 401],
    );
    assert.equal(origin.count('type3'), 1);
  });

  test('takes the upstream with the longest path before that of the URL', async () => {
    await using origin = await startScriptedUpstream({ scheme: 'none' });
    const config = `version: 1
upstreams:
  root: { url: '${origin.url}' }
  long: { url: '${origin.url}/a/b/c' }
  short: { url: '${origin.url}/a' }
listeners: [{ name: egress, listen: 127.0.0.1:0, mode: forward }]
`;
    for (const [path, expected] of [
      ['/a/b/c/d', 'long'],
      ['/a/b/cd', 'short'],
      ['/a', 'short'],
      ['/ab', 'root'],
    ] as const) {
      const { report } = await explained({ config, url: `${origin.url}${path}` });
      const [way] = report.steps;
      assert.equal(way?.kind === 'way' ? way.upstream : '', expected, path);
    }
  });

  test('has no credentials where a listener asks its callers for them', async () => {
    const config = `${PRINCIPALS}upstreams:
  app: { url: 'https://127.0.0.1:9', auth: { schemes: [ntlm], principal: caller } }
listeners:
  - name: api
    listen: 127.0.0.1:8080
    clients: [{ basic: { pass: true } }]
    routes: [{ path: /, upstream: app }]
`;
    const asked = { config, secrets: SECRETS, url: 'http://127.0.0.1:8080/', as: 'api' };
    const { report } = await explained(asked);
    assert.deepEqual([report.error?.code, report.steps], ['client-auth-required', []]);
  });

  test('says where a listener does not let through', async () => {
    const config = `version: 1
listeners: [{ name: egress, listen: 127.0.0.1:8090, mode: forward, allow: ['127.0.0.1:*'] }]
`;
    for (const url of ['http://127.0.0.1:8090/', 'http://10.1.2.3/', 'https://10.1.2.3/']) {
      const { report, requests } = await explained({ config, url, as: 'egress' });
      assert.deepEqual([report.error?.code, requests], ['target-denied', []], url);
    }
  });

  test('tells an answer that does not come, or is none', async () => {
    for (const [raw, code] of [
      ['', 'upstream-closed'],
      ['SSH-2.0-x\r\n', 'response-malformed'],
    ] as const) {
      await using origin = await startScriptedUpstream({
        scheme: 'none',
        handler: () => ({ raw, after: 'fin' }),
      });
      const { report, requests } = await ask(origin, '/x', { auth: '' });
      assert.deepEqual(
        [report.error?.code, report.status, requests[0]?.status],
        [code, null, null],
      );
    }
  });

  test('tells an origin that forgets its login before the request', async () => {
    await using origin = await startScriptedUpstream({ forgetAfter: 1 });
    const { report, text } = await ask(origin, '/x');
    assert.deepEqual([report.status, report.error], [401, null]);
    assert.match(text, /asks again on a connection that was logged in/);
  });

  test('names a scheme that the origin does not have', async () => {
    await using origin = await startScriptedUpstream();
    const { report } = await ask(origin, '/x', { auth: 'principal: alice, schemes: [negotiate]' });
    assert.equal(report.error?.code, 'no-common-scheme');
    await using basic = await startScriptedUpstream({ scheme: 'basic-only' });
    const none = await ask(basic, '/x', { auth: 'principal: alice' });
    assert.equal(none.report.error?.code, 'no-common-scheme');
    assert.deepEqual(none.requests[0]?.offers, [{ scheme: 'basic', bytes: null }]);
  });

  test('tells TLS and the channel binding', async () => {
    const certificate = testCertificate();
    await using origin = await startScriptedUpstream({
      tls: { certificate, channelBinding: 'required' },
    });
    const ca = `, tls: { ca: '${certificate.caFile}' }`;
    const auth = `${NTLM}, channelBinding: required`;
    const { report, logins } = await ask(origin, '/x', { more: ca, auth });
    assert.equal(report.ok, true);
    assert.deepEqual(
      [logins[0]?.channelBinding, logins[0]?.channelBindingRequired],
      ['sent', true],
    );
    const connected = report.steps.find((step) => step.kind === 'connected');
    assert.deepEqual(
      [connected?.tls?.protocol, connected?.tls?.servername, connected?.tls?.bindable],
      ['TLSv1.3', 'localhost', true],
    );
    const untrusted = await ask(origin, '/x');
    assert.deepEqual([untrusted.report.error?.code, untrusted.report.status], ['tls-failed', null]);
  });

  test('refuses what the configuration does not have', async () => {
    await using origin = await startScriptedUpstream({ scheme: 'none' });
    const rows: readonly (readonly [Parameters<typeof ask>[2], RegExp])[] = [
      [{ as: 'nobody' }, /no listener nobody/],
      [{ principal: 'nobody' }, /no principal nobody/],
      [{ principal: 'caller' }, /from: client/],
      [{ principal: 'alice', url: 'http://127.0.0.1:9/' }, /at no upstream/],
      [{ principal: 'alice', auth: '' }, /has no auth/],
      [{ principal: 'hashed', auth: BASIC }, /it can serve none of the schemes of app/],
    ];
    for (const [asked, expected] of rows) {
      await assert.rejects(ask(origin, '/x', asked), (error) => {
        assert.ok(error instanceof QuestionError);
        assert.match(error.message, expected);
        return true;
      });
    }
  });
});

/** A forward listener that goes through a parent, to an origin that the parent alone knows. */
async function askThrough(
  url: string,
  options: { pat?: string; auth?: string; via?: string; origin?: 'ntlm'; as?: object } = {},
): Promise<Explained> {
  const { pat = SECRETS.PAT, auth = 'principal: pat, schemes: [ntlm]', via = '[corp]' } = options;
  await using origin = await startScriptedUpstream({ scheme: options.origin ?? 'none' });
  const origins = { 'app.test:80': origin.port };
  await using parent = await startScriptedParent({ origins });
  const login = auth === '' ? '' : `, auth: { ${auth} }`;
  const config = `${PRINCIPALS}upstreams:
  corp: { proxy: '${parent.url}'${login} }
  away: { proxy: 'http://127.0.0.1:1' }
  app: { url: 'http://app.test', via: ${via}, auth: { ${NTLM} } }
listeners:
  - { name: egress, listen: 127.0.0.1:3128, mode: forward, via: ${via}, allow: ['*:*'] }
  - { name: intranet, listen: 127.0.0.1:3129, mode: forward, origins: [app] }
`;
  const as = options.as ?? { as: options.origin === undefined ? 'egress' : 'intranet' };
  return await explained({ config, secrets: { ...SECRETS, PAT: pat }, url, ...as });
}

describe('explain through a parent', () => {
  test('tells the legs of both hops', async () => {
    const told = await askThrough('http://app.test/x', { origin: 'ntlm' });
    const target = 'http://app.test/x';
    assert.deepEqual(legs(told), [
      ['parent', 'HEAD', target, 'Proxy-Authorization: NTLM', 407],
      ['parent', 'HEAD', target, 'Proxy-Authorization: NTLM', 401],
      ['origin', 'HEAD', target, 'Authorization: NTLM', 401],
      ['origin', 'HEAD', target, 'Authorization: NTLM', 200],
      ['origin', 'GET', target, 200],
    ]);
    const [way] = told.report.steps;
    assert.deepEqual(way, {
      kind: 'way',
      upstream: 'app',
      origin: 'http://app.test',
      principal: 'alice',
      parent: {
        upstream: 'corp',
        url: way?.kind === 'way' ? (way.parent?.url ?? '') : '',
        form: 'absolute',
        principal: 'pat',
      },
    });
    assert.equal(told.report.ok, true);
  });

  test('names the hop that refuses a password', async () => {
    for (const url of ['http://app.test/x', 'https://app.test/x']) {
      const { report, requests } = await askThrough(url, { pat: 'not his' });
      assert.deepEqual(
        [report.error?.code, report.error?.hop, report.status],
        ['credential-rejected', 'parent', 407],
        url,
      );
      assert.equal(requests.length, 2, url);
    }
  });

  test('names a parent that asks and gets nothing, or offers nothing of ours', async () => {
    const plain = await askThrough('http://app.test/x', { auth: '' });
    assert.equal(plain.report.error?.code, 'parent-auth');
    const other = await askThrough('http://app.test/x', {
      auth: 'principal: pat, schemes: [negotiate]',
    });
    assert.deepEqual(
      [other.report.error?.code, other.report.error?.likely, other.report.error?.hop],
      ['parent-auth', 'no-common-scheme', 'parent'],
    );
  });

  test('tells a refused tunnel with its status', async () => {
    const { report } = await askThrough('https://nowhere.test/x');
    assert.deepEqual([report.error?.code, report.status], ['connect-refused-by-parent', 502]);
  });

  test('goes on with the next parent', async () => {
    const via = '[away, corp]';
    for (const options of [{ via }, { via, origin: 'ntlm', as: {} }] as const) {
      const { report } = await askThrough('http://app.test/x', options);
      const ways = report.steps.filter((step) => step.kind === 'way');
      assert.deepEqual(
        ways.map(({ parent }) => parent?.upstream),
        ['away', 'corp'],
      );
      assert.equal(report.ok, true);
    }
  });
});
