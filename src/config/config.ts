/**
 * The decoded configuration: what every other part may know of the file.
 *
 * Types only. All defaults are filled in, all references are read, all names exist and the whole
 * tree is frozen. `schema.ts` decides what the file may say, `load.ts` makes a `Config` of it.
 */

import type { PasswordHash } from '../identity/hash-form.ts';
import type { JwtAlgorithm, PublicJwk } from '../identity/jwks.ts';
import type { Secret } from '../identity/secret.ts';
import type { CertificateField } from '../identity/client-certificate.ts';
import type { ServerCertificate } from '../identity/server-certificate.ts';
import type { TlsIdentity } from '../identity/tls-identity.ts';
import type { KerberosRealms } from './kerberos-realms.ts';

/** A span of time in milliseconds. */
export type Milliseconds = number;

/** A size in bytes. */
export type Bytes = number;

/** Auth schemes that `schemes` may list. */
export const SCHEMES = ['negotiate', 'ntlm', 'basic', 'digest'] as const;

/** An auth scheme, lower case; on the wire it is written as RFC 9110 11.1 and RFC 4559 have it. */
export type Scheme = (typeof SCHEMES)[number];

/** Kinds of callers' credentials. */
export const CLIENT_KINDS = [
  'none',
  'basic',
  'jwt',
  'mtls',
  'negotiate',
  'header',
  'sspi',
] as const;

export type ClientKind = (typeof CLIENT_KINDS)[number];

export interface Config {
  /** The file as it was named to the loader. */
  readonly file: string;
  readonly log: LogConfig;
  /** Default: no admin listener. */
  readonly admin: AdminConfig | undefined;
  /** Default 1. */
  readonly workers: number;
  /** Default true. */
  readonly watch: boolean;
  /** Default none. */
  readonly stateDir: string | undefined;
  readonly shutdown: {
    /** Default 0 s. */
    readonly delay: Milliseconds;
    /** Default 25 s. */
    readonly grace: Milliseconds;
  };
  readonly limits: {
    /** Connections of callers, all listeners. Default 10000. */
    readonly connections: number;
    /** Connections to upstreams in all. Default 1000. */
    readonly upstreamConnections: number;
    /** Default 10000. */
    readonly partitions: number;
  };
  readonly kerberos: {
    /** Absolute path. Default: what KRB5_CONFIG says; undefined: the system's. */
    readonly config: string | undefined;
    /** What KRB5CCNAME says, for `ambient` principals; undefined: the library's default. */
    readonly defaultCache: string | undefined;
    /** Default `npm`. */
    readonly provider: 'npm' | 'gssapi';
    /** Realms that callers may log in to; none where no principal is `from: client`. */
    readonly realms: KerberosRealms;
  };
  /** By name; no prototype, so any name may be looked up. Default empty. */
  readonly principals: Readonly<Record<string, PrincipalConfig>>;
  /** By name; no prototype, so any name may be looked up. Default empty. */
  readonly upstreams: Readonly<Record<string, UpstreamConfig>>;
  /** At least one. */
  readonly listeners: readonly ListenerConfig[];
  /** Every key that weakens security and is set, as paths: logged at each start. */
  readonly dangerous: readonly string[];
  /** What is no fault and yet will not work as it stands, as `PATH: message`. */
  readonly warnings: readonly string[];
  /** The file with all defaults, in the file's own units; secrets are their references. */
  readonly effective: EffectiveConfig;
}

/** Some upstream may be logged in to with a password itself. */
export const usesPasswords = ({ upstreams }: Pick<Config, 'upstreams'>): boolean =>
  Object.values(upstreams).some(
    ({ auth }) =>
      auth?.schemes.some((scheme) => scheme === 'basic' || scheme === 'digest') === true,
  );

/** Plain data for `check --print` and the admin page. */
export type EffectiveConfig = Readonly<Record<string, unknown>>;

export interface LogConfig {
  /** Default `info`. */
  readonly level: 'trace' | 'debug' | 'info' | 'warn' | 'error';
  /** A line per request. Default true. */
  readonly access: boolean;
  /** Principal names in lines. Default false. */
  readonly principals: boolean;
}

export type ListenAddress = TcpAddress | UnixAddress;

export interface TcpAddress {
  readonly kind: 'tcp';
  /** An IP literal without brackets; `localhost` in the file is 127.0.0.1 here. */
  readonly host: string;
  /** 0 lets the system choose. */
  readonly port: number;
  readonly loopback: boolean;
}

export interface UnixAddress {
  readonly kind: 'unix';
  readonly path: string;
}

/** A Host value that a listener accepts. */
export interface HostPattern {
  /** Lower case, no trailing dot, IPv6 without brackets; with `wildcard` the part after `*.`. */
  readonly host: string;
  readonly wildcard: boolean;
  /** undefined: any port. */
  readonly port: number | undefined;
}

export interface AdminConfig {
  readonly listen: readonly ListenAddress[];
  /** Mode of the unix sockets. Default 0o660. */
  readonly socketMode: number;
  /** Listener with /metrics, /healthz and /readyz only, without a Host rule. Default none. */
  readonly probes: { readonly listen: readonly ListenAddress[] } | undefined;
  /** Default `normal`. */
  readonly readiness: 'normal' | 'strict';
  /** As on listeners: undefined is no rule (see `ListenerConfig.hosts`). */
  readonly hosts: readonly HostPattern[] | undefined;
  readonly clients: readonly ClientConfig[];
  /** Default false. */
  readonly dangerousOpenAdmin: boolean;
}

export interface GuardConfig {
  /** Default 3. */
  readonly rejections: number;
  /** Default 15 min. */
  readonly probeAfter: Milliseconds;
}

/** Who the daemon is towards upstreams. Further kinds join this union as they are built. */
export type PrincipalConfig = OwnPrincipal | ClientPrincipal;

/** A principal with a credential in the file. */
export type OwnPrincipal = PasswordPrincipal | HashedPrincipal | KerberosPrincipal;

/** The caller's own user name and password, request by request (`from: client`). */
export interface ClientPrincipal {
  readonly kind: 'client';
  readonly name: string;
  /** None of its own. */
  readonly kerberos: undefined;
  readonly guard: GuardConfig;
}

export interface PasswordPrincipal {
  readonly kind: 'password';
  readonly name: string;
  /** `DOMAIN\user` or `user@domain` or `user`, as in the file. */
  readonly username: string;
  readonly password: Secret<string>;
  /** Kerberos beside NTLM. Default none. */
  readonly kerberos: KerberosPart | undefined;
  readonly guard: GuardConfig;
}

export interface HashedPrincipal {
  readonly kind: 'nt-hash';
  readonly name: string;
  readonly username: string;
  /** NTOWFv1, 16 bytes. */
  readonly ntHash: Secret<Buffer>;
  /** Kerberos beside NTLM. Default none. */
  readonly kerberos: KerberosPart | undefined;
  readonly guard: GuardConfig;
}

/** Kerberos alone. */
export interface KerberosPrincipal {
  readonly kind: 'kerberos';
  readonly name: string;
  readonly kerberos: KerberosPart;
  readonly guard: GuardConfig;
}

/** Where the tickets of a principal come from; `principal` is `user@REALM`. */
export type KerberosPart =
  | {
      readonly source: 'keytab';
      readonly principal: string;
      /** Absolute path. */
      readonly path: string;
      /** Keyed digest of the principal's own entries: changes with its keys (R15, R47). */
      readonly fingerprint: string;
    }
  /** `path` is that of a FILE cache, absolute; the file may not exist yet. */
  | { readonly source: 'ccache'; readonly principal: string; readonly path: string }
  | {
      readonly source: 'password';
      readonly principal: string;
      readonly password: Secret<string>;
    }
  /** Whoever the default cache of the machine belongs to. */
  | { readonly source: 'ambient' };

export interface UpstreamConfig {
  readonly name: string;
  /** A parent proxy (`proxy`) has no path. */
  readonly kind: 'origin' | 'parent';
  readonly target: TargetUrl;
  /** Parents in order of preference, by name, `direct` among them. Default empty: directly. */
  readonly via: readonly string[];
  /** Host sent. Default `upstream`. */
  readonly host: 'upstream' | 'client';
  /** undefined: no login here; a 401 is passed on unchanged. */
  readonly auth: UpstreamAuth | undefined;
  readonly pool: PoolConfig;
  readonly timeouts: UpstreamTimeouts;
  /** Longest body kept for a second try. Default 64 KiB. */
  readonly replay: { readonly maxBytes: Bytes };
  /** Always there for https, undefined for http. */
  readonly tls: UpstreamTls | undefined;
}

export interface TargetUrl {
  readonly scheme: 'http' | 'https';
  /** Lower case ASCII name without trailing dot, or an IP literal without brackets. */
  readonly host: string;
  /** The scheme's default where the url has none. */
  readonly port: number;
  /** Value of Host and of the authority: brackets for IPv6, port only where not the default. */
  readonly authority: string;
  /** '' or a path that starts with a slash and ends without one. */
  readonly basePath: string;
}

export interface UpstreamAuth {
  /** Default principal. Default none. */
  readonly principal: string | undefined;
  /** Order of preference and allow-list. Default negotiate, ntlm. */
  readonly schemes: readonly Scheme[];
  /** Default `HTTP/<host of url>`, no port. */
  readonly spn: string;
  /** Default `auto`. */
  readonly persistence: 'auto' | 'connection' | 'request';
  /** Default `auto`. */
  readonly channelBinding: 'auto' | 'required' | 'off';
  /** Default `optional`. */
  readonly mutual: 'off' | 'optional' | 'required';
  /** Method of login legs without a body, when the request's method is unsafe. Default `head`. */
  readonly probe: 'head' | 'same';
  /** Default false. */
  readonly handshakeCookies: boolean;
}

/** Per worker. Limits of a parent are wider: each tunnel through it is a connection of its own. */
export interface PoolConfig {
  /** Default 64; of a parent 1000. */
  readonly maxConnections: number;
  /** Default 16, or maxConnections if that is less; of a parent 1000. */
  readonly maxPerPrincipal: number;
  /** Default 32, or maxConnections if that is less; of a parent 256. */
  readonly maxIdle: number;
  /** Default 0. */
  readonly minIdle: number;
  /** Openings in flight. Default 4; of a parent 256. */
  readonly maxHandshakes: number;
  /** Default 60 s. */
  readonly idleTimeout: Milliseconds;
  /** Default 1 h. */
  readonly maxAge: Milliseconds;
  /** Default 0: no limit. */
  readonly maxRequests: number;
  /** Default 5 s. */
  readonly waitTimeout: Milliseconds;
  /** Default 1000. */
  readonly maxWaiters: number;
}

export interface UpstreamTimeouts {
  /** Default 5 s. */
  readonly connect: Milliseconds;
  /** Default 10 s. */
  readonly handshake: Milliseconds;
  /** Until the head of the response. Default 60 s. */
  readonly response: Milliseconds;
  /** No byte in either direction. Default 5 min. */
  readonly idle: Milliseconds;
}

export interface UpstreamTls {
  /** PEM certificates that replace Node's and the system's. Default none. */
  readonly ca: readonly string[] | undefined;
  /** PEM certificates beside the trust store. Default empty. */
  readonly extraCa: readonly string[];
  /** Default: the host of the url. */
  readonly servername: string | undefined;
  /** Our certificate chain and key: PEM, or PKCS#12. Default none. */
  readonly identity: TlsIdentity | undefined;
  /** Default TLSv1.2. */
  readonly minVersion: 'TLSv1.2' | 'TLSv1.3';
  /** Default false. */
  readonly dangerousSkipVerify: boolean;
}

/** TLS towards callers. */
export interface ListenerTlsConfig {
  /** At least one; the first is for callers who name nothing that another one covers. */
  readonly certificates: readonly ServerCertificate[];
  /** Default TLSv1.2. */
  readonly minVersion: 'TLSv1.2' | 'TLSv1.3';
}

/** Who may call. Further kinds join this union as they are built. */
export type ClientConfig =
  NoneClient | BasicClient | JwtClient | NegotiateClient | HeaderClient | MtlsClient;

export interface NoneClient {
  readonly kind: 'none';
}

/** Callers' user names and passwords. */
export interface BasicClient {
  readonly kind: 'basic';
  /** Default `sidekerb`. */
  readonly realm: string;
  /** Who verifies them; undefined: the next hop (`pass: true`). */
  readonly users: ReadonlyMap<string, PasswordHash> | undefined;
}

/** Callers with a token of one issuer. */
export interface JwtClient {
  readonly kind: 'jwt';
  readonly issuer: string;
  /** At least one; a token is for one of them. */
  readonly audience: readonly string[];
  /** Default RS256, ES256, EdDSA. */
  readonly algorithms: readonly JwtAlgorithm[];
  readonly jwks: JwksSource;
  readonly cache: {
    /** Default `lru`. */
    readonly mode: 'lru' | 'fifo' | 'fixed' | 'off';
    /** Default 1000. */
    readonly max: number;
  };
  /** Between two loads of a URL. Default 5 min. */
  readonly refresh: Milliseconds;
}

/** Where the keys of an issuer come from. */
export type JwksSource =
  | { readonly kind: 'url'; readonly url: string }
  /** Read with the configuration; a changed file is a changed configuration. */
  | { readonly kind: 'file'; readonly path: string; readonly keys: readonly PublicJwk[] };

/** Callers with Kerberos tickets for a service name of ours. */
export interface NegotiateClient {
  readonly kind: 'negotiate';
  /** `HTTP/host`. Default: the one name that the keytab has keys of. */
  readonly spn: string;
  /** A keytab with the keys of that name alone; whatever else the file holds is left out. */
  readonly keys: Secret<Buffer>;
  /** Keyed digest of these keys: changes with them (R47). */
  readonly fingerprint: string;
  /** Whether a ticket is worth one request or names its connection. Default `request`. */
  readonly persist: 'request' | 'connection';
}

/** Callers whom a trusted proxy names. */
export interface HeaderClient {
  readonly kind: 'header';
  /** Name of the field. */
  readonly name: string;
  /** IP addresses and CIDR ranges of such proxies. At least one. */
  readonly from: readonly string[];
}

/** Callers whom the certificate of their connection names. */
export interface MtlsClient {
  readonly kind: 'mtls';
  /** PEM certificates of the authorities that are believed. */
  readonly ca: readonly string[];
  /** Which name is the caller's. Default `san-uri`. */
  readonly subject: 'san-uri' | 'san-dns' | 'san-email' | 'cn';
}

/** Maps callers to a principal. Further conditions join as their kinds of callers are built. */
export interface PrincipalRuleConfig {
  readonly when: {
    /** Default: any kind that the listener has. */
    readonly client: ClientConfig['kind'] | undefined;
    /** Of tokens. Default: any that the listener takes. */
    readonly issuer?: string | undefined;
    /** `*` stands for any text. Default: anybody. */
    readonly subject: string | undefined;
    /** What a token has to say, all of it. Default: nothing. */
    readonly claim?: ClaimPatterns | undefined;
    /** What a certificate has to say, all of it; `*` stands for any text. Default: nothing. */
    readonly certificate?:
      Readonly<Partial<Record<CertificateField, string | undefined>>> | undefined;
  };
  /** A name in `principals`. */
  readonly use: string;
}

/** By name of a claim: its value, a member of it where it is a list, or patterns of what is in it. */
export interface ClaimPatterns {
  readonly [name: string]: string | number | boolean | ClaimPatterns;
}

/** Further modes join as they are built. */
export type ListenerConfig = ReverseListenerConfig | ForwardListenerConfig;

/** What listeners of every mode have. */
export interface ListenerBase {
  readonly name: string;
  readonly listen: readonly ListenAddress[];
  /** Mode of the unix sockets. Default 0o660. */
  readonly socketMode: number;
  /** HTTP/2: by ALPN with TLS, without it from the first byte on. Default false. */
  readonly http2: boolean;
  /**
   * Accepted Host values; undefined: any. Where the file has none, a loopback reverse listener with
   * `clients: [none]` accepts its listen addresses, `localhost` and the hosts of its routes.
   * Unix sockets have no Host rule whatever stands here.
   */
  readonly hosts: readonly HostPattern[] | undefined;
  /** undefined: plain HTTP. */
  readonly tls: ListenerTlsConfig | undefined;
  /** Default [none] on loopback and unix sockets. */
  readonly clients: readonly ClientConfig[];
  /** First match wins, no match is refused. Default none: everybody gets what routes and upstreams say. */
  readonly principal: readonly PrincipalRuleConfig[] | undefined;
  readonly timeouts: {
    /** From the first byte of a head to its end. Default 15 s. */
    readonly head: Milliseconds;
    /** Between requests. Default 75 s. */
    readonly idle: Milliseconds;
    /** No byte of a request body. Default 60 s. */
    readonly body: Milliseconds;
    /** Default 1 h. */
    readonly tunnelIdle: Milliseconds;
  };
  readonly limits: {
    /** Default 64 KiB. */
    readonly head: Bytes;
    /** Header fields. Default 200. */
    readonly headers: number;
    /** Requests and connections at a time per caller address. Default 0: no limit. */
    readonly perClient: number;
  };
  readonly forwarded: {
    /** IP addresses and CIDR ranges whose forwarding fields are appended to. Default empty. */
    readonly trust: readonly string[];
    /** Default `x-forwarded`. */
    readonly send: 'x-forwarded' | 'forwarded' | 'both' | 'none';
  };
  /** Field names, lower case. Default x-remote-user, x-forwarded-user. */
  readonly identityHeaders: readonly string[];
  /** Default false. */
  readonly dangerousOpenProxy: boolean;
  /** Default false. */
  readonly dangerousPlaintextBasic: boolean;
}

export interface ReverseListenerConfig extends ListenerBase {
  readonly mode: 'reverse';
  /** At least one, most specific first is the router's work: order of the file. */
  readonly routes: readonly RouteConfig[];
}

export interface ForwardListenerConfig extends ListenerBase {
  readonly mode: 'forward';
  /** Parents in order of preference, by name, `direct` among them. Default empty: directly. */
  readonly via: readonly string[];
  /** Names of upstreams whose origins are logged in to. Default empty. */
  readonly origins: readonly string[];
  /** The no-proxy list, as in the file. Default empty. */
  readonly direct: readonly string[];
  /** As in the file. Default *:443, *:80. */
  readonly allow: readonly string[];
  /** Globs of `allow` cover private addresses too. Default false. */
  readonly private: boolean;
  /** Ranges of `direct` match the addresses of names, not literals only. Default false. */
  readonly resolve: boolean;
}

export interface RouteConfig {
  /** Default '/'; starts with a slash. */
  readonly path: string;
  /** Default none: any host. */
  readonly host: HostPattern | undefined;
  /** A name in `upstreams`. */
  readonly upstream: string;
  /**
   * The route's own, else, where the listener has no rules, the upstream's `auth.principal`. A name in
   * `principals`. undefined: what the rule of the caller says; without rules, none.
   */
  readonly principal: string | undefined;
  /** Field that tells the upstream who called, as in the file. Default none. */
  readonly forwardIdentity: string | undefined;
  /** Default false. */
  readonly stripPrefix: boolean;
  /** Upgrade tokens, lower case. Default websocket. */
  readonly upgrade: readonly string[];
  /** `pass` joins as it is built. Default `own`. */
  readonly challenge: 'own' | 'pass';
  /** The upstream's, or the route's own. */
  readonly timeouts: Pick<UpstreamTimeouts, 'response' | 'idle'>;
  /** Default true. */
  readonly rewriteLocation: boolean;
  /** Default false. */
  readonly rewriteCookies: boolean;
  /** Origins of web pages that may call: lower case `scheme://host[:port]`. Default empty. */
  readonly allowOrigins: readonly string[];
  /** Default false. */
  readonly dangerousRawPath: boolean;
}
