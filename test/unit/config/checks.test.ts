/** Rules that need several keys: each is broken once, and the fault is the only one. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { faultLines, faultsWhenBuilt } from './loading.ts';

interface Parts {
  readonly top?: string;
  readonly principals?: string;
  readonly upstreams?: string;
  readonly listener?: string;
  readonly routes?: string;
}

/** A sound file whose parts may be replaced. */
function file(parts: Parts = {}): string {
  return `version: 1
${parts.top ?? ''}
principals:
  me: { username: 'CORP\\me', password: { env: ME } }
  krb: { kerberos: me@CORP, keytab: /k }
  caller: { from: client }
  ${parts.principals ?? ''}
upstreams:
  web: { url: 'https://web.corp', auth: { principal: me } }
  anon: { url: 'https://anon.corp', auth: {} }
  bare: { url: 'https://bare.corp' }
  parent: { proxy: 'http://proxy.corp:8080', auth: {} }
  ${parts.upstreams ?? ''}
listeners:
  - name: api
    ${parts.listener ?? 'listen: 127.0.0.1:1'}
    ${parts.routes ?? 'routes: { upstream: web }'}
`;
}

/** Paths and messages, without lines. */
function faults(parts: Parts): string[] {
  return faultsWhenBuilt(file(parts)).map((line) => line.replace(/^\d+:\d+: /, ''));
}

function rules(
  name: string,
  rows: readonly (readonly [title: string, parts: Parts, fault: string | RegExp])[],
): void {
  describe(name, () => {
    for (const [title, parts, expected] of rows) {
      test(title, () => {
        const found = faults(parts);
        assert.equal(found.length, 1, found.join('\n'));
        if (typeof expected === 'string') assert.equal(found[0], expected);
        else assert.match(found[0] ?? '', expected);
      });
    }
  });
}

test('the file that the rules are broken in is sound', () => {
  assert.deepEqual(faults({}), []);
});

const p = (principals: string): Parts => ({ principals });
const u = (upstreams: string): Parts => ({ upstreams });
const l = (listener: string): Parts => ({ listener });
const r = (routes: string): Parts => ({ routes });

rules('principals', [
  [
    'one of the kinds is wanted',
    p('x: {}'),
    'principals.x: wanted: username, kerberos, ambient: true or from: client',
  ],
  [
    'a user name needs a secret',
    p('x: { username: u }'),
    'principals.x.username: wanted beside it: password or ntHash',
  ],
  [
    'a user name has one secret',
    p('x: { username: u, password: { env: A }, ntHash: { env: B } }'),
    'principals.x.ntHash: wanted: password or ntHash, not both',
  ],
  [
    'an NT hash needs a user name',
    p('x: { kerberos: a@B, keytab: /k, ntHash: { env: B } }'),
    'principals.x.ntHash: wanted beside it: username',
  ],
  [
    'Kerberos needs a credential',
    p('x: { kerberos: a@B }'),
    'principals.x.kerberos: wanted beside it: keytab, ccache or password',
  ],
  [
    'Kerberos has one credential store',
    p('x: { kerberos: a@B, keytab: /k, ccache: /c }'),
    'principals.x.ccache: wanted: keytab or ccache, not both',
  ],
  [
    'a keytab needs a Kerberos name',
    p('x: { username: u, password: { env: A }, keytab: /k }'),
    'principals.x.keytab: wanted beside it: kerberos',
  ],
  [
    'ambient stands alone',
    p('x: { ambient: true, username: u }'),
    'principals.x.username: cannot stand beside ambient',
  ],
  [
    'from: client stands alone',
    p('x: { from: client, password: { env: A } }'),
    'principals.x.password: cannot stand beside from',
  ],
  [
    'a backslash has text on both sides',
    p("x: { username: 'CORP\\', password: { env: A } }"),
    /^principals\.x\.username: wanted: DOMAIN/,
  ],
  [
    'a name has plain characters',
    p("'x y': { ambient: true }"),
    /^principals\.x y: wanted: a name/,
  ],
]);

rules('upstreams', [
  [
    'url or proxy is wanted',
    u('x: { host: client }'),
    'upstreams.x: wanted: url (an origin) or proxy (a parent proxy)',
  ],
  [
    'not both',
    u("x: { url: 'http://a', proxy: 'http://b' }"),
    'upstreams.x.proxy: wanted: url or proxy, not both',
  ],
  [
    'a parent has no path',
    u("x: { proxy: 'http://b/c' }"),
    'upstreams.x.proxy: a parent proxy has no path',
  ],
  [
    'a parent has no parent',
    u("x: { proxy: 'http://b', via: parent }"),
    'upstreams.x.via: a parent proxy is reached directly',
  ],
  [
    'via names an upstream',
    u("x: { url: 'http://a', via: parents }"),
    'upstreams.x.via: there is no upstream of this name (did you mean parent?)',
  ],
  [
    'via names a parent',
    u("x: { url: 'http://a', via: [direct, web] }"),
    'upstreams.x.via[1]: the upstream is no parent proxy: it has no proxy',
  ],
  [
    'a name stands once in via',
    u("x: { url: 'http://a', via: [parent, parent] }"),
    'upstreams.x.via[1]: the name stands twice',
  ],
  [
    'the name direct is taken',
    u("direct: { url: 'http://a' }"),
    'upstreams.direct: the name is taken: it means without a parent proxy',
  ],
  [
    'the principal exists',
    u("x: { url: 'http://a', auth: { principal: mee } }"),
    'upstreams.x.auth.principal: there is no principal of this name (did you mean me?)',
  ],
  [
    'a scheme stands once',
    u("x: { url: 'http://a', auth: { schemes: [ntlm, ntlm] } }"),
    'upstreams.x.auth.schemes[1]: the scheme stands twice',
  ],
  [
    'Basic goes over TLS',
    u("x: { url: 'http://a', auth: { schemes: [ntlm, basic] } }"),
    /^upstreams\.x\.auth\.schemes\[1\]: Basic over plain http shows the password/,
  ],
  [
    'a written scheme must be served',
    u("x: { url: 'http://a', auth: { principal: krb, schemes: [negotiate, ntlm] } }"),
    'upstreams.x.auth.schemes[1]: no part of principal krb can serve ntlm',
  ],
  [
    'a required channel binding needs https',
    u("x: { url: 'http://a', auth: { principal: me, channelBinding: required } }"),
    'upstreams.x.auth.channelBinding: a channel binding needs https',
  ],
  [
    'a required channel binding needs more than Kerberos of npm',
    u("x: { url: 'https://a', auth: { principal: krb, channelBinding: required } }"),
    /^upstreams\.x\.auth\.channelBinding: principal krb can only use Kerberos here/,
  ],
  [
    'a certificate needs its key',
    u("x: { url: 'https://a', tls: { cert: /c } }"),
    'upstreams.x.tls.cert: wanted beside it: key',
  ],
  [
    'a key needs its certificate',
    u("x: { url: 'https://a', tls: { key: { env: K } } }"),
    'upstreams.x.tls.key: wanted beside it: cert',
  ],
  [
    'a passphrase needs what it opens',
    u("x: { url: 'https://a', tls: { passphrase: { env: K } } }"),
    'upstreams.x.tls.passphrase: wanted beside it: pkcs12 or key',
  ],
  [
    'maxPerPrincipal is at most maxConnections',
    u("x: { url: 'http://a', pool: { maxConnections: 4, maxPerPrincipal: 5 } }"),
    'upstreams.x.pool.maxPerPrincipal: more than maxConnections (4)',
  ],
  [
    'minIdle is at most maxIdle',
    u("x: { url: 'http://a', pool: { maxIdle: 2, minIdle: 3 } }"),
    'upstreams.x.pool.minIdle: more than maxIdle (2)',
  ],
]);

rules('urls', [
  [
    'no user name',
    u("x: { url: 'http://me@a' }"),
    'upstreams.x.url: a url must not hold a user name or password',
  ],
  [
    'no query',
    u("x: { url: 'http://a/?b' }"),
    'upstreams.x.url: a url must not have a query or a fragment',
  ],
  [
    'no fragment',
    u("x: { url: 'http://a/#b' }"),
    'upstreams.x.url: a url must not have a query or a fragment',
  ],
  [
    'http or https',
    u("x: { url: 'ftp://a/' }"),
    'upstreams.x.url: wanted: http://HOST[:PORT][/PATH] or https',
  ],
  [
    'a port that exists',
    u("x: { url: 'http://a:0' }"),
    'upstreams.x.url: the host or port of the url is malformed',
  ],
  [
    'no dot segments',
    u("x: { url: 'http://a/b/%2E%2e/c' }"),
    'upstreams.x.url: the path of the url is malformed or has dot segments',
  ],
]);

rules('listeners', [
  [
    'two listeners have two names',
    l('listen: 127.0.0.1:1\n    routes: { upstream: web }\n  - name: api\n    listen: 127.0.0.1:2'),
    'listeners[1].name: another listener has this name',
  ],
  [
    'the names of the daemon are taken',
    l(
      'listen: 127.0.0.1:1\n    routes: { upstream: web }\n  - name: admin\n    listen: 127.0.0.1:2',
    ),
    'listeners[1].name: the name is taken by a listener of the daemon',
  ],
  [
    'two listeners have two addresses',
    l('listen: [127.0.0.1:1, localhost:1]'),
    'listeners[0].listen[1]: listeners[0].listen[0] has this address',
  ],
  [
    'a wildcard takes every address',
    {
      top: 'admin: { listen: 127.0.0.1:1 }',
      listener: "listen: '[::]:1'\n    clients: none\n    dangerousOpenProxy: true",
    },
    'listeners[0].listen: admin.listen[0] has this address',
  ],
  [
    'a reverse listener has routes',
    r(''),
    'listeners[0].routes: missing; a reverse listener needs routes',
  ],
  [
    'routes are for reverse listeners',
    l('listen: 127.0.0.1:1\n    mode: forward'),
    'listeners[0].routes: routes are for mode: reverse',
  ],
  [
    'via is for the other modes',
    l('listen: 127.0.0.1:1\n    via: parent'),
    'listeners[0].via: not for mode: reverse',
  ],
  [
    'origins are origins',
    { listener: 'listen: 127.0.0.1:1\n    mode: forward\n    origins: parent', routes: '' },
    'listeners[0].origins: the upstream is a parent proxy; wanted: an origin',
  ],
  [
    'HTTP/2 needs TLS beyond loopback',
    l('listen: 0.0.0.0:1\n    http2: true\n    clients: none\n    dangerousOpenProxy: true'),
    'listeners[0].http2: HTTP/2 needs tls beyond loopback',
  ],
  [
    'HTTP/2 is for routes',
    { listener: 'listen: 127.0.0.1:1\n    mode: forward\n    http2: true', routes: '' },
    'listeners[0].http2: HTTP/2 is for mode: reverse',
  ],
  [
    'TLS needs a certificate',
    l('listen: 127.0.0.1:1\n    tls: {}'),
    'listeners[0].tls: wanted: pkcs12, or cert and key',
  ],
  [
    'an address is an address',
    l('listen: example.com:1'),
    /^listeners\[0\]\.listen: wanted: ADDRESS:PORT/,
  ],
]);

rules('routes', [
  [
    'the upstream exists',
    r('routes: { upstream: wbe }'),
    'listeners[0].routes.upstream: there is no upstream of this name (did you mean web?)',
  ],
  [
    'the upstream is an origin',
    r('routes: { upstream: parent }'),
    'listeners[0].routes.upstream: the upstream is a parent proxy; a route needs an origin',
  ],
  [
    'the principal exists',
    r('routes: { upstream: web, principal: you }'),
    'listeners[0].routes.principal: there is no principal of this name',
  ],
  [
    'a principal needs an upstream that logs in',
    r('routes: { upstream: bare, principal: me }'),
    'listeners[0].routes.principal: the upstream has no auth, so no login is made; give it auth: {}',
  ],
  [
    'a path starts with a slash',
    r('routes: { upstream: web, path: a }'),
    /^listeners\[0\]\.routes\.path: wanted: a path that starts with \//,
  ],
  [
    'a path has no dot segments',
    r('routes: { upstream: web, path: /a/../b }'),
    /^listeners\[0\]\.routes\.path: wanted/,
  ],
  [
    'two routes match different requests',
    r("routes: [{ upstream: web, host: 'A.x' }, { upstream: anon, host: a.x. }]"),
    'listeners[0].routes[1]: routes[0] has the same host and path',
  ],
  [
    'a host has no port',
    r("routes: { upstream: web, host: 'a:80' }"),
    /^listeners\[0\]\.routes\.host: wanted/,
  ],
  [
    'an origin has no path',
    r("routes: { upstream: web, allowOrigins: 'https://a/' }"),
    /^listeners\[0\]\.routes\.allowOrigins: wanted: an origin/,
  ],
]);

const jwt = (issuer: string): string => `jwt: { issuer: ${issuer}, audience: a, jwks: /jwks.json }`;
const open = (clients: string, more = ''): Parts =>
  l(`listen: 127.0.0.1:1\n    clients: ${clients}${more}`);

/** The same beyond loopback. */
const exposed = (clients: string, more = ''): Parts =>
  l(`listen: 0.0.0.0:1\n    dangerousPlaintextBasic: true\n    clients: ${clients}${more}`);

rules('clients', [
  [
    'a listener beyond loopback says who may call',
    l('listen: 0.0.0.0:1'),
    'listeners[0].clients: missing; a listener beyond loopback must say who may call',
  ],
  [
    'anybody beyond loopback is dangerous',
    l('listen: 0.0.0.0:1\n    clients: none'),
    'listeners[0].clients: anybody could call beyond loopback; dangerousOpenProxy: true allows it',
  ],
  [
    'none stands last',
    open(`[none, { ${jwt('i')} }]`),
    'listeners[0].clients[0]: none may stand only alone or last',
  ],
  [
    'a kind stands once',
    open('[mtls: { ca: /c }, mtls: { ca: /d }]', '\n    tls: { cert: /c, key: { env: K } }'),
    'listeners[0].clients[1]: clients[0] is of this kind',
  ],
  [
    'client certificates need TLS',
    open('[mtls: { ca: /c }]'),
    'listeners[0].clients[0]: client certificates need tls on the listener',
  ],
  [
    'basic says how it verifies',
    open('[basic: {}]'),
    'listeners[0].clients[0].basic: wanted: pass: true, or users',
  ],
  [
    'basic verifies in one way',
    open('[basic: { pass: true, users: { file: /htpasswd } }]', '\n    principal: { use: caller }'),
    'listeners[0].clients[0].basic: wanted: pass: true, or users',
  ],
  [
    'Basic beyond loopback goes over TLS',
    l('listen: 0.0.0.0:1\n    clients: [basic: { users: { file: /htpasswd } }]'),
    /^listeners\[0\]\.clients\[0\]\.basic: Basic over plain http/,
  ],
  [
    'a connection is trusted only from direct clients',
    open('[negotiate: { keytab: /k, persist: connection }]'),
    'listeners[0].clients[0].negotiate.persist: connection needs directClients: true, and HTTP/1.1 only',
  ],
  [
    'an unknown kind is told as a whole',
    open('[bogus: {}]'),
    /^listeners\[0\]\.clients\[0\]: wanted: none, or one of basic/,
  ],
  [
    'an unknown key inside a kind is told there',
    open('[header: { name: X, fron: 10.0.0.1 }]'),
    'listeners[0].clients[0].header.fron: unknown key (did you mean from?)',
  ],
  [
    'no symmetric algorithms',
    open('[jwt: { issuer: i, audience: a, jwks: /jwks.json, algorithms: HS256 }]'),
    /^listeners\[0\]\.clients\[0\]\.jwt\.algorithms: wanted: RS256/,
  ],
]);

rules('callers with tokens, and those whom a proxy names', [
  [
    'an issuer stands once',
    open(`[{ ${jwt('i')} }, { ${jwt('i')} }]`),
    'listeners[0].clients[1]: an entry before has this issuer, or this field',
  ],
  [
    'a field stands once, in any spelling',
    open('[header: { name: X-User, from: 10.0.0.1 }, header: { name: x_user, from: 10.0.0.2 }]'),
    'listeners[0].clients[1]: an entry before has this issuer, or this field',
  ],
  [
    'keys do not come over plain http',
    open("[jwt: { issuer: i, audience: a, jwks: 'http://idp.corp/keys' }]"),
    /^listeners\[0\].clients\[0\].jwt.jwks: keys over plain http .* dangerousPlaintextJwks/,
  ],
  [
    'keys come by http, https or from a file',
    open("[jwt: { issuer: i, audience: a, jwks: 'ftp://idp.corp/keys' }]"),
    /jwt.jwks: wanted: an http or https URL without userinfo, or a path/,
  ],
  [
    'the URL of keys has no secret in it',
    open("[jwt: { issuer: i, audience: a, jwks: 'https://u:p@idp.corp/keys' }]"),
    /jwt.jwks: wanted: an http or https URL without userinfo, or a path/,
  ],
  [
    'a field with a meaning of its own names no caller',
    open('[header: { name: Authorization, from: 10.0.0.1 }]'),
    /header.name: wanted: the name of a header field that has no other meaning/,
  ],
  [
    'nor is anybody told there who called',
    r('routes: { upstream: web, forwardIdentity: content_length }'),
    /forwardIdentity: wanted: the name of a header field that has no other meaning/,
  ],
  [
    'nor is a field dropped that frames the message',
    l('listen: 127.0.0.1:1\n    identityHeaders: [Content-Length]'),
    /identityHeaders.*: wanted: the name of a header field that has no other meaning/,
  ],
  [
    'a key set has to be one',
    open('[jwt: { issuer: i, audience: a, jwks: /somewhere }]'),
    'listeners[0].clients[0].jwt.jwks: file /somewhere the key set is not JSON',
  ],
  [
    'a user file has to be one, and the line is told',
    open('[basic: { users: { file: /somewhere } }]'),
    'listeners[0].clients[0].basic.users: file /somewhere line 1: no colon; a line is user:hash',
  ],
  [
    'pass: true gets no stored principal by a rule',
    open('[basic: { pass: true }]', '\n    principal: { use: me }'),
    /^listeners\[0\].principal.use: basic: \{ pass: true \} of listeners\[0\] verifies nobody/,
  ],
  [
    'from: client is not for tokens',
    open(`[{ ${jwt('i')} }]`, '\n    principal: { use: caller }'),
    /^listeners\[0\].principal.use: from: client is for basic callers only/,
  ],
  [
    'from: client is not for names that a proxy sets',
    open('[header: { name: X-User, from: 10.0.0.1 }]', '\n    principal: { use: caller }'),
    /^listeners\[0\].principal.use: from: client is for basic callers only/,
  ],
]);

rules('which principal', [
  [
    'a rule names a principal',
    open('none', '\n    principal: { use: yu }'),
    'listeners[0].principal.use: there is no principal of this name',
  ],
  [
    'client is named where there are several kinds',
    open(`[{ ${jwt('i')} }, none]`, '\n    principal: { use: me }'),
    'listeners[0].principal.when: client must be named: the listener has several kinds',
  ],
  [
    'client is one of the kinds',
    open('none', '\n    principal: { when: { client: jwt }, use: me }'),
    'listeners[0].principal.when.client: not among the clients of the listener',
  ],
  [
    'issuer is named where there are several',
    open(`[{ ${jwt('i')} }, { ${jwt('j')} }]`, '\n    principal: { use: me }'),
    'listeners[0].principal.when: issuer must be named: the listener has several jwt clients',
  ],
  [
    'issuer is one of them',
    open(`[{ ${jwt('i')} }]`, '\n    principal: { when: { issuer: k }, use: me }'),
    'listeners[0].principal.when.issuer: no jwt client of the listener has this issuer',
  ],
  [
    'claims are for jwt',
    open('none', '\n    principal: { when: { claim: { a: b } }, use: me }'),
    'listeners[0].principal.when.claim: claims are for jwt clients',
  ],
  [
    'from: client by a rule is for basic',
    open(`[{ ${jwt('i')} }]`, '\n    principal: { use: caller }'),
    /^listeners\[0\]\.principal\.use: from: client is for basic callers only/,
  ],
  [
    'from: client by a route is for basic',
    r('routes: { upstream: web, principal: caller }'),
    /^listeners\[0\]\.routes\.principal: from: client is for basic callers only/,
  ],
  [
    'from: client by default is for basic',
    {
      upstreams: "x: { url: 'https://x', auth: { principal: caller } }",
      routes: 'routes: { upstream: x }',
    },
    /^upstreams\.x\.auth\.principal: from: client is for basic callers only/,
  ],
  [
    'who was not verified gets no principal by a rule',
    open('[basic: { pass: true }]', '\n    principal: { use: me }'),
    /^listeners\[0\]\.principal\.use: basic: \{ pass: true \} of listeners\[0\] verifies nobody/,
  ],
  [
    'who was not verified gets no principal by a route',
    { ...open('[basic: { pass: true }]'), routes: 'routes: { upstream: anon, principal: me }' },
    /^listeners\[0\]\.routes\.principal: basic: \{ pass: true \}/,
  ],
  [
    'who was not verified gets no principal by default',
    open('[basic: { pass: true }]'),
    /^upstreams\.web\.auth\.principal: basic: \{ pass: true \}/,
  ],
  [
    'who was not verified gets no principal of the parent of an upstream',
    {
      ...open('[basic: { pass: true }]'),
      upstreams: `corp: { proxy: 'http://corp:1', auth: { principal: me } }
  x: { url: 'https://x', via: corp, auth: { principal: caller } }`,
      routes: 'routes: { upstream: x }',
    },
    /^upstreams\.corp\.auth\.principal: basic: \{ pass: true \}/,
  ],
  [
    'who was not verified gets no principal of the parent of an origin',
    {
      upstreams: `corp: { proxy: 'http://corp:1', auth: { principal: me } }
  x: { url: 'https://x', via: corp, auth: { principal: caller } }`,
      listener:
        "listen: '127.0.0.1:1'\n    mode: forward\n    origins: x\n    clients: [basic: { pass: true }]",
      routes: '',
    },
    /^upstreams\.corp\.auth\.principal: basic: \{ pass: true \}/,
  ],
  [
    'beyond loopback a route proves the callers that nobody verified',
    { ...exposed('[basic: { pass: true }]'), routes: 'routes: { upstream: anon }' },
    /^listeners\[0\]\.routes: basic: \{ pass: true \} verifies nobody, and neither does a login at anon/,
  ],
  [
    'a login that the caller makes himself proves nothing to the listener',
    {
      ...exposed('[basic: { pass: true }]', '\n    principal: { use: caller }'),
      routes: 'routes: { upstream: web, challenge: pass }',
    },
    /^listeners\[0\]\.routes: basic: \{ pass: true \} verifies nobody, and neither/,
  ],
  [
    'beyond loopback no target is reached directly by callers that nobody verified',
    {
      listener: `listen: 0.0.0.0:1
    mode: forward
    dangerousPlaintextBasic: true
    clients: [basic: { pass: true }]`,
      routes: '',
    },
    /^listeners\[0\]\.clients: basic: \{ pass: true \} verifies nobody, and neither does a target that is reached directly/,
  ],
  [
    'beyond loopback each parent proves the callers that nobody verified',
    {
      upstreams: `corp: { proxy: 'http://corp:1', auth: { principal: caller } }
  other: { proxy: 'http://other:1' }`,
      listener: `listen: 0.0.0.0:1
    mode: forward
    via: [corp, other]
    dangerousPlaintextBasic: true
    clients: [basic: { pass: true }]`,
      routes: '',
    },
    /^listeners\[0\]\.clients: basic: \{ pass: true \} verifies nobody, and neither does a login at other/,
  ],
  [
    'an issuer is asked of tokens only',
    open(
      `[{ ${jwt('i')} }, basic: { users: { file: /htpasswd } }]`,
      '\n    principal: { when: { client: basic, issuer: i }, use: me }',
    ),
    'listeners[0].principal.when.issuer: issuers are for jwt clients',
  ],
  [
    'a rule by claims asks for one',
    open(`[{ ${jwt('i')} }]`, '\n    principal: { when: { claim: {} }, use: me }'),
    'listeners[0].principal.when.claim: wanted: at least one entry',
  ],
  [
    'a claim that is a map is asked for something',
    open(`[{ ${jwt('i')} }]`, '\n    principal: { when: { claim: { a: { b: {} } } }, use: me }'),
    /^listeners\[0\]\.principal\.when\.claim\.a/,
  ],
  [
    'a name that HTTP/2 may lose is not followed by none',
    open('[header: { name: X-User, from: 10.0.0.1 }, none]', '\n    http2: true'),
    'listeners[0].clients[0]: with http2 a name that is malformed is lost, and would be taken for none',
  ],
  [
    'a field that nearly anybody may set names nobody',
    exposed('[header: { name: X-User, from: [0.0.0.0/1, 128.0.0.0/2] }]'),
    /^listeners\[0\]\.clients\[0\]\.header\.from: nearly anybody could say who he is/,
  ],
  [
    'nor does one of all IPv4 in the form of IPv6',
    exposed("[header: { name: X-User, from: '::ffff:0:0/96' }]"),
    /^listeners\[0\]\.clients\[0\]\.header\.from: nearly anybody/,
  ],
  [
    'nor does one of all IPv6 that is given out',
    exposed("[header: { name: X-User, from: '2000::/3' }]"),
    /^listeners\[0\]\.clients\[0\]\.header\.from: nearly anybody/,
  ],
]);

test('a parent that callers log in to themselves proves them', () => {
  const through = `corp: { proxy: 'http://corp:1', auth: { principal: caller } }
  x: { url: 'https://x', via: corp }`;
  const parts = { ...exposed('[basic: { pass: true }]'), upstreams: through };
  assert.deepEqual(faults({ ...parts, routes: 'routes: { upstream: x }' }), []);
});

test('a default scheme that the principal cannot serve is no fault', () => {
  assert.deepEqual(faults(u("x: { url: 'http://a', auth: { principal: krb } }")), []);
});

test('with rules the default principal of the upstream is out of play', () => {
  assert.deepEqual(faults(open('[basic: { pass: true }]', '\n    principal: { use: caller }')), []);
});

const admin = (text: string): Parts => ({ top: `admin: { ${text} }` });

rules('the admin listener', [
  [
    'beyond loopback it is guarded',
    admin('listen: 0.0.0.0:9'),
    /^admin\.listen: beyond loopback the admin listener needs tls, clients \(without none\) and allow/,
  ],
  [
    'none is no guard',
    admin(
      'listen: 0.0.0.0:9, tls: { cert: /c, key: { env: K } }, clients: none, allow: { client: none, subject: x }',
    ),
    /^admin\.listen: beyond loopback/,
  ],
  [
    'allow names its clients',
    admin('listen: 127.0.0.1:9, allow: { client: mtls, subject: x }'),
    'admin.allow.client: not among the clients of admin',
  ],
]);

test('beyond loopback the admin listener may stand with tls, clients and allow, or as dangerous', () => {
  const guarded =
    'listen: 0.0.0.0:9, tls: { cert: /c, key: { env: K } }, clients: [mtls: { ca: /c }], allow: { client: mtls, subject: x }';
  assert.deepEqual(faults(admin(guarded)), []);
  assert.deepEqual(faults(admin('listen: 0.0.0.0:9, dangerousOpenAdmin: true')), []);
  assert.deepEqual(faults(admin('listen: unix:/run/x')), []);
});

describe('parts that are not built yet', () => {
  const small = (upstream: string): string => `version: 1
principals: { me: { username: u, password: { env: A } } }
upstreams: { web: { url: 'https://web.corp', auth: { principal: me, ${upstream} } } }
listeners: { name: api, listen: '127.0.0.1:1', routes: { upstream: web } }
`;
  test('all schemes are built', () => {
    assert.deepEqual(faultLines(small('schemes: ntlm')), []);
    assert.deepEqual(faultLines(small('schemes: [ntlm, negotiate]')), []);
    assert.deepEqual(faultLines(small('schemes: negotiate')), []);
    assert.deepEqual(faultLines(small('persistence: request, mutual: required')), []);
    assert.deepEqual(faultLines(small('schemes: [ntlm, basic]')), []);
    assert.deepEqual(faultLines(small('schemes: [ntlm, digest]')), []);
    assert.deepEqual(faultLines(small("spn: 'HTTP/web.corp@CORP'")), [
      '3:74: upstreams.web.auth.spn: provider npm passes no realm on; the [domain_realm] section of the Kerberos configuration names it',
    ]);
  });

  test('callers with a password, a token, a ticket or a trusted name are built, with rules; other kinds are not', () => {
    const lines = (keys: string): readonly string[] =>
      faultLines(`version: 1
principals: { caller: { from: client }, svc: { username: s, password: { env: S } } }
upstreams: { web: { url: 'https://web.corp', auth: { schemes: ntlm } } }
listeners:
  - listen: '127.0.0.1:1'
    name: api
    routes: { upstream: web }
    ${keys}
`).map((line) => line.replace(/^[\d:]+ /, ''));
    const rules = 'principal: [{ when: { client: basic, subject: a* }, use: caller }]';
    assert.deepEqual(lines(`clients: [basic: { pass: true }]\n    ${rules}`), []);
    assert.deepEqual(lines(`clients: [basic: { users: { file: /htpasswd } }]\n    ${rules}`), []);
    const header = 'clients: [header: { name: X-User, from: 10.0.0.1 }]';
    const toMe = 'principal: [{ when: { subject: a* }, use: svc }]';
    assert.deepEqual(lines(`${header}\n    ${toMe}`), []);
    const token = "clients: [jwt: { issuer: i, audience: a, jwks: 'https://idp.example/k' }]";
    const claims =
      'principal: [{ when: { claim: { a: { b: { c: d } }, e: 1, f: true } }, use: svc }]';
    assert.deepEqual(lines(`${token}\n    ${claims}`), []);
    const ticket = 'clients: [negotiate: { keytab: /http.keytab, spn: HTTP/web }]';
    const realm = 'principal: [{ when: { client: negotiate, subject: "*@CORP" }, use: svc }]';
    assert.deepEqual(lines(`${ticket}\n    ${realm}`), []);
    assert.deepEqual(lines('clients: [sspi: {}]\n    principal: { when: {}, use: caller }'), [
      'listeners[0].clients: not built yet',
    ]);
  });

  test('a value that is the default is no fault', () => {
    assert.deepEqual(
      faultLines(small('persistence: auto, mutual: optional, handshakeCookies: false')),
      [],
    );
  });
});

describe('what is allowed', () => {
  test('a login may belong to a connection of a direct HTTP/1.1 caller', () => {
    const clients =
      '[negotiate: { keytab: /http.keytab, persist: connection, directClients: true }]';
    assert.deepEqual(faults(open(clients)), []);
    assert.deepEqual(faults(open('[negotiate: { keytab: /http.keytab }]')), []);
  });

  test('keys come by plain http from this machine, and from others by a dangerous key', () => {
    for (const url of ['http://localhost:1/k', 'http://127.0.0.1:1/k?p=1', 'http://[::1]/k']) {
      assert.deepEqual(faults(open(`[jwt: { issuer: i, audience: a, jwks: '${url}' }]`)), []);
    }
    const dangerous = "jwks: 'http://idp.corp/k', dangerousPlaintextJwks: true";
    assert.deepEqual(faults(open(`[jwt: { issuer: i, audience: a, ${dangerous} }]`)), []);
  });

  test('several issuers and several trusted headers may stand in one list', () => {
    const header = (name: string): string => `header: { name: ${name}, from: 10.0.0.1 }`;
    const clients = `[{ ${jwt('i')} }, { ${jwt('j')} }, { ${header('A')} }, { ${header('B')} }, none]`;
    assert.deepEqual(faults(open(clients)), []);
  });

  test('a dangerous key allows what is a fault without it', () => {
    const basic = "x: { url: 'http://a', auth: { schemes: basic, dangerousPlaintextBasic: true } }";
    assert.deepEqual(faults(u(basic)), []);
    const anybody = 'listen: 0.0.0.0:1\n    clients: none\n    dangerousOpenProxy: true';
    assert.deepEqual(faults(l(anybody)), []);
  });
});

rules('schemes and the principals of routes', [
  [
    "a route's principal must serve the schemes of its upstream",
    {
      upstreams: "x: { url: 'http://x', auth: { schemes: [ntlm] } }",
      routes: 'routes: { upstream: x, principal: krb }',
    },
    'upstreams.x.auth.schemes[0]: no part of principal krb can serve ntlm',
  ],
  [
    "a rule's principal must serve them too",
    {
      upstreams: "x: { url: 'http://x', auth: { schemes: [ntlm] } }",
      listener: 'listen: 127.0.0.1:1\n    principal: { use: krb }',
      routes: 'routes: { upstream: x }',
    },
    'upstreams.x.auth.schemes[0]: no part of principal krb can serve ntlm',
  ],
]);

test('a principal that another upstream uses is not held against this one', () => {
  const upstreams =
    "x: { url: 'http://x', auth: { schemes: [ntlm] } }\n  y: { url: 'http://y', auth: {} }";
  assert.deepEqual(faults({ upstreams, routes: 'routes: { upstream: y, principal: krb }' }), []);
});
