/** The keys of `principals` and `upstreams`: who the daemon is, and whom it calls. */

import { SCHEMES } from './config.ts';
import * as s from './schema.ts';
import { isSpn, parseTargetUrl } from './urls.ts';

/** All kinds in one section: which keys go together is judged in `checks/principals.ts`. */
export function principal() {
  return s.section({
    username: s
      .text('wanted: DOMAIN\\user (in single quotes), user@domain or user', isUserName)
      .optional(),
    password: s.secret().optional(),
    ntHash: s.secret().optional(),
    kerberos: s
      .pattern('wanted: a Kerberos principal such as user@REALM', /^[^\s@]+@[A-Za-z0-9._-]+$/)
      .optional(),
    keytab: s.path().optional(),
    ccache: s.path().optional(),
    ambient: s.only(true).optional(),
    from: s.only('client').optional(),
    guard: s.optionalSection({
      rejections: s.count(1, 100).prefault(3),
      probeAfter: s.duration('1s', '168h').prefault('15m'),
    }),
  });
}

export function upstream() {
  return s.section({
    url: targetUrl().optional(),
    proxy: targetUrl().optional(),
    via: s.list(s.name()).prefault([]),
    host: s.choice(['upstream', 'client']).prefault('upstream'),
    auth: auth().optional(),
    pool: pool(),
    timeouts: s.optionalSection({
      connect: s.duration('10ms', '10m').prefault('5s'),
      handshake: s.duration('10ms', '10m').prefault('10s'),
      response: responseTimeout().prefault('60s'),
      idle: idleTimeout().prefault('5m'),
    }),
    replay: s.optionalSection({ maxBytes: s.size('0B', '16MiB').prefault('64KiB') }),
    tls: clientTls().optional(),
  });
}

/** Until the head of the response; routes have it too. */
export function responseTimeout() {
  return s.duration('10ms', '24h');
}

/** Without a byte in either direction; routes have it too. */
export function idleTimeout() {
  return s.duration('10ms', '168h');
}

function targetUrl() {
  const wanted = 'wanted: http://HOST[:PORT][/PATH] or https';
  return s.judgedText(wanted, (value) => {
    const target = parseTargetUrl(value);
    return 'fault' in target ? target.fault : undefined;
  });
}

function auth() {
  return s.section({
    principal: s.name().optional(),
    schemes: s.list(s.choice(SCHEMES), 1).prefault(['negotiate', 'ntlm']),
    spn: s.text('wanted: SERVICE/HOST such as HTTP/crm.corp.example', isSpn).optional(),
    persistence: s.choice(['auto', 'connection', 'request']).prefault('auto'),
    channelBinding: s.choiceWithOff(['auto', 'required']).prefault('auto'),
    mutual: s.choiceWithOff(['optional', 'required']).prefault('optional'),
    probe: s.choice(['head', 'same']).prefault('head'),
    handshakeCookies: s.flag(false),
    dangerousPlaintextBasic: s.flag(false),
  });
}

function pool() {
  return s.optionalSection({
    // What these are by default depends on the upstream (`pool-defaults.ts`).
    maxConnections: s.count(1, 65_535).optional(),
    maxPerPrincipal: s.count(1, 65_535).optional(),
    maxIdle: s.count(0, 65_535).optional(),
    minIdle: s.count(0, 65_535).prefault(0),
    maxHandshakes: s.count(1, 1000).optional(),
    idleTimeout: s.duration('100ms', '24h').prefault('60s'),
    maxAge: s.duration('1s', '720h').prefault('1h'),
    maxRequests: s.count(0, 1_000_000_000).prefault(0),
    waitTimeout: s.duration('0s', '10m').prefault('5s'),
    maxWaiters: s.count(0, 1_000_000).prefault(1000),
  });
}

function clientTls() {
  return s.section({
    ca: s.pathOrReference().optional(),
    extraCa: s.pathOrReference().optional(),
    servername: s
      .pattern('wanted: a host name', /^(?:[A-Za-z0-9_-]{1,63}\.)*[A-Za-z0-9_-]{1,63}$/)
      .optional(),
    cert: s.pathOrReference().optional(),
    key: s.secret().optional(),
    pkcs12: s.secret().optional(),
    passphrase: s.secret().optional(),
    minVersion: s.choice(['TLSv1.2', 'TLSv1.3']).prefault('TLSv1.2'),
    dangerousSkipVerify: s.flag(false),
  });
}

/** A down-level name, a UPN or a bare name; at most one backslash, with text on both sides. */
function isUserName(value: string): boolean {
  return /^[^\\]+(?:\\[^\\]+)?$/.test(value) && value.length <= 256;
}
