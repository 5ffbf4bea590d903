/** The keys of `listeners`: where callers come in, who they may be, and where they may go. */

import { responseTimeout, idleTimeout } from './contract-upstreams.ts';
import {
  addressRange,
  hostPatterns,
  identityFieldName,
  listenAddresses,
  socketMode,
} from './contract-words.ts';
import { parseHostPattern } from './addresses.ts';
import { JWT_ALGORITHMS } from '../identity/jwks.ts';
import type { ClaimPatterns } from './config.ts';
import * as s from './schema.ts';
import { isAllowEntry, isDirectEntry } from './targets.ts';
import { isJwksSource, isPlainPath, isSpn, parseOrigin } from './urls.ts';

export function listener() {
  return s.section({
    name: s.name(),
    listen: listenAddresses(),
    socketMode: socketMode(),
    mode: s.choice(['reverse', 'forward', 'socks', 'tunnel']).prefault('reverse'),
    hosts: hostPatterns().optional(),
    tls: s.list(serverTls(), 1).optional(),
    http2: s.flag(false),
    clients: clients().optional(),
    principal: s.list(principalRule(), 1).optional(),
    routes: s.list(route(), 1).optional(),
    via: s.list(s.name()).prefault([]),
    direct: s.list(s.text('wanted: a name, .suffix, address or range', isDirectEntry)).prefault([]),
    allow: s
      .list(
        s.text("wanted: HOST-GLOB:PORTS, CIDR:PORTS, or one of these after '!'", isAllowEntry),
        1,
      )
      .prefault(['*:443', '*:80']),
    origins: s.list(s.name()).prefault([]),
    private: s.flag(false),
    resolve: s.flag(false),
    timeouts: s.optionalSection({
      head: s.duration('10ms', '10m').prefault('15s'),
      idle: s.duration('10ms', '24h').prefault('75s'),
      body: s.duration('10ms', '24h').prefault('60s'),
      tunnelIdle: s.duration('10ms', '168h').prefault('1h'),
    }),
    limits: s.optionalSection({
      head: s.size('1KiB', '1MiB').prefault('64KiB'),
      headers: s.count(1, 10_000).prefault(200),
      perClient: s.count(0, 1_000_000).prefault(0),
    }),
    forwarded: s.optionalSection({
      trust: s.list(addressRange()).prefault([]),
      send: s.choice(['x-forwarded', 'forwarded', 'both', 'none']).prefault('x-forwarded'),
    }),
    identityHeaders: s.list(identityFieldName()).prefault(['X-Remote-User', 'X-Forwarded-User']),
    dangerousOpenProxy: s.flag(false),
    dangerousPlaintextBasic: s.flag(false),
  });
}

/** Certificates towards callers; the admin listener has them too. */
export function serverTls() {
  return s.section({
    cert: s.pathOrReference().optional(),
    key: s.secret().optional(),
    pkcs12: s.secret().optional(),
    passphrase: s.secret().optional(),
    minVersion: s.choice(['TLSv1.2', 'TLSv1.3']).prefault('TLSv1.2'),
  });
}

/** Kinds of callers' credentials in order; the admin listener has them too. */
export function clients() {
  return s.list(
    s.oneOf('wanted: none, or one of basic, jwt, mtls, negotiate, header, sspi with its settings', [
      s.only('none'),
      s.section({ jwt: jwt() }),
      s.section({ mtls: mtls() }),
      s.section({ negotiate: negotiate() }),
      s.section({ basic: basic() }),
      s.section({
        header: s.section({ name: identityFieldName(), from: s.list(addressRange(), 1) }),
      }),
      s.section({ sspi: s.section({}) }),
    ]),
    1,
  );
}

/** A kind of credential with settings, as `when.client` and `allow` name it. */
export function clientKind() {
  return s.choice(['basic', 'jwt', 'mtls', 'negotiate', 'header', 'sspi', 'none']);
}

function jwt() {
  return s.section({
    issuer: s.text('wanted: the issuer'),
    audience: s.list(s.text('wanted: an audience'), 1),
    jwks: s.text('wanted: an http or https URL without userinfo, or a path', isJwksSource),
    algorithms: s.list(s.choice(JWT_ALGORITHMS), 1).prefault(['RS256', 'ES256', 'EdDSA']),
    cache: s.optionalSection({
      mode: s.choiceWithOff(['lru', 'fifo', 'fixed']).prefault('lru'),
      max: s.count(1, 1_000_000).prefault(1000),
    }),
    refresh: s.duration('10s', '24h').prefault('5m'),
    dangerousPlaintextJwks: s.flag(false),
  });
}

function mtls() {
  return s.section({
    ca: s.pathOrReference(),
    subject: s.choice(['san-uri', 'san-dns', 'san-email', 'cn']).prefault('san-uri'),
  });
}

function negotiate() {
  return s.section({
    keytab: s.path(),
    spn: s.text('wanted: SERVICE/HOST such as HTTP/gateway.corp.example', isSpn).optional(),
    persist: s.choice(['request', 'connection']).prefault('request'),
    directClients: s.flag(false),
  });
}

function basic() {
  return s.section({
    pass: s.only(true).optional(),
    users: s.secret().optional(),
    realm: s
      .text('wanted: a realm in ASCII without quotes', (value) =>
        /^[ !#-[\]-~]{1,128}$/.test(value),
      )
      .prefault('sidekerb'),
  });
}

/** Claims may lie in others, as `realm_access: { roles: … }` does; no issuer needs more levels. */
const CLAIM_LEVELS = 4;

function claimPatterns(levels: number): s.Of<ClaimPatterns> {
  const wanted = 'wanted: text, a number, true or false, or a map of what is in the claim';
  const plain = [
    s.text('wanted: text'),
    s.count(-1_000_000_000, 1_000_000_000),
    s.flag(false).unwrap(),
  ] as const;
  return s.freeMap(
    levels === 1 ? s.oneOf(wanted, plain) : s.oneOf(wanted, [...plain, claimPatterns(levels - 1)]),
  );
}

/** Beside `subject`, which is the one name that `mtls.subject` chose. */
function certificatePatterns() {
  const pattern = (): s.Of<string | undefined> =>
    s.text('wanted: text; * stands for any text').optional();
  return s.section({
    cn: pattern(),
    organization: pattern(),
    unit: pattern(),
    issuer: pattern(),
    'san-uri': pattern(),
    'san-dns': pattern(),
    'san-email': pattern(),
  });
}

function principalRule() {
  return s.section({
    when: s.optionalSection({
      client: clientKind().optional(),
      issuer: s.text('wanted: the issuer of one of the jwt clients').optional(),
      subject: s.text('wanted: a name; * stands for any text').optional(),
      claim: claimPatterns(CLAIM_LEVELS).optional(),
      certificate: certificatePatterns().optional(),
    }),
    use: s.name(),
  });
}

function route() {
  return s.section({
    path: s
      .text('wanted: a path that starts with / and has no dot segments', isRoutePath)
      .prefault('/'),
    host: s.text('wanted: a host name or *.name, without a port', isRouteHost).optional(),
    upstream: s.name(),
    principal: s.name().optional(),
    stripPrefix: s.flag(false),
    upgrade: s.list(s.text('wanted: the name of an upgrade', isUpgrade)).prefault(['websocket']),
    challenge: s.choice(['own', 'pass']).prefault('own'),
    forwardIdentity: identityFieldName().optional(),
    timeouts: s.optionalSection({
      response: responseTimeout().optional(),
      idle: idleTimeout().optional(),
    }),
    rewriteLocation: s.flag(true),
    rewriteCookies: s.flag(false),
    allowOrigins: s
      .list(
        s.text(
          'wanted: an origin such as https://app.example',
          (value) => parseOrigin(value) !== undefined,
        ),
      )
      .prefault([]),
    dangerousRawPath: s.flag(false),
  });
}

function isRoutePath(value: string): boolean {
  return value.startsWith('/') && isPlainPath(value);
}

function isRouteHost(value: string): boolean {
  return parseHostPattern(value)?.port === undefined && parseHostPattern(value) !== undefined;
}

/** RFC 9110 7.8: a token, with a version after a slash if need be. */
function isUpgrade(value: string): boolean {
  return /^[A-Za-z0-9!#$%&'*+.^_`|~-]+(?:\/[A-Za-z0-9!#$%&'*+.^_`|~-]+)?$/.test(value);
}
