/**
 * Who vouches for callers: the issuers of tokens, the user files and the acceptors of a configuration. What is as it
 * was before keeps its object, and with it what was verified; of other objects nothing is carried over
 * (R48, R49).
 */
import type { Acceptor } from '../auth/kerberos/acceptor.ts';
import type { Acceptors } from '../auth/kerberos/acceptors.ts';
import type { BasicClient, Config, JwtClient, NegotiateClient } from '../config/config.ts';
import type { Clock } from '../clock.ts';
import type { DeadlineWheel } from '../deadlines.ts';
import type { PublicJwk } from '../identity/jwks.ts';
import { UserDatabase, type UserDatabaseDeps } from '../inbound/htpasswd/user-database.ts';
import { JwtVerifier } from '../inbound/jwt/jwt-verifier.ts';
import { RemoteJwks } from '../inbound/jwt/remote-jwks.ts';
import type { Log } from '../log/log.ts';
import type { Metrics } from '../metrics/metrics.ts';
import { jwksMeters, tokenCacheMeters } from './caller-meters.ts';

/** What outlives a configuration. */
export interface CallerSourceDeps {
  readonly clock: Clock;
  readonly deadlines: DeadlineWheel;
  readonly log: Log;
  readonly metrics: Metrics;
  readonly userDatabases: UserDatabaseDeps;
  readonly acceptors: Acceptors;
}

/** One issuer, with where its keys come from. */
export class TokenIssuer {
  readonly issuer: string;
  readonly verifier: JwtVerifier;
  /** undefined: the keys are in a file, which is read with the configuration. */
  readonly remote: RemoteJwks | undefined;

  /** Uses no network before it is in force. */
  constructor(client: JwtClient, { clock, deadlines, log, metrics }: CallerSourceDeps) {
    const { issuer, audience, algorithms, cache, jwks, refresh: refreshMs } = client;
    this.issuer = issuer;
    const deps = { clock, deadlines, log };
    this.remote =
      jwks.kind === 'file'
        ? undefined
        : new RemoteJwks(
            { url: new URL(jwks.url), refreshMs, extraCa: [] },
            { ...deps, meters: jwksMeters(metrics, issuer, clock) },
          );
    this.verifier = new JwtVerifier(
      { issuer, audience, algorithms, cache },
      { ...deps, meters: tokenCacheMeters(metrics, issuer), source: this.remote },
    );
    this.remote?.subscribe((keys) => this.verifier.replaceKeys(keys));
  }

  /** In force: `client` is as the one that it was made of, but for the keys in its file. */
  use({ jwks }: JwtClient): void {
    if (jwks.kind === 'file') this.verifier.replaceKeys(jwks.keys);
  }

  /** In force for the first time; `known`: what was loaded from the same URL before. */
  start(known: readonly PublicJwk[] | undefined): void {
    if (known !== undefined) this.remote?.begin(known);
    this.remote?.start();
  }

  end(): void {
    this.remote?.stop();
    this.verifier.close();
  }

  /** Why nobody can come in, or what will not be noticed; undefined: all is well. */
  get trouble(): string | undefined {
    if (this.remote?.failing === undefined) return undefined;
    return `keys of ${this.issuer} cannot be loaded: ${this.remote.failing}`;
  }
}

/** Of one configuration. */
export class CallerSources {
  /** In the order of the file. */
  readonly issuers: ReadonlyMap<JwtClient, TokenIssuer>;
  readonly databases: ReadonlyMap<BasicClient, UserDatabase>;
  /** By `acceptorKey`. */
  readonly acceptors = new Map<string, Acceptor>();
  readonly #all: Acceptors;
  readonly #krb5Config: string | undefined;

  /** Changes nothing outside, and starts nothing. */
  constructor(config: Config, deps: CallerSourceDeps, previous: CallerSources | undefined) {
    const clients = config.listeners.flatMap((listener) => listener.clients);
    const known = new Map(
      [...(previous?.issuers ?? [])].map(([client, issuer]) => [keyOf(client), issuer]),
    );
    const issuers = new Map<JwtClient, TokenIssuer>();
    const databases = new Map<BasicClient, UserDatabase>();
    this.#all = deps.acceptors;
    this.#krb5Config = config.kerberos.config;
    for (const client of clients) {
      if (client.kind === 'jwt') {
        const issuer = known.get(keyOf(client)) ?? new TokenIssuer(client, deps);
        known.set(keyOf(client), issuer);
        issuers.set(client, issuer);
      }
      if (client.kind === 'negotiate') this.#addAcceptor(client, previous);
      if (client.kind === 'basic' && client.users !== undefined) {
        const settings = { users: client.users, realm: client.realm };
        const all = [...(previous?.databases.values() ?? []), ...databases.values()];
        const same = all.find((database) => database.sameAs(settings));
        databases.set(client, same ?? new UserDatabase(deps.userDatabases, settings));
      }
    }
    this.issuers = issuers;
    this.databases = databases;
  }

  /** The configuration of `previous` was in force before; undefined: none was. */
  putInForce(previous: CallerSources | undefined): void {
    const before = new Set(previous?.issuers.values());
    const now = new Set(this.issuers.values());
    const started = new Set(before);
    for (const [client, issuer] of this.issuers) {
      issuer.use(client);
      if (started.has(issuer)) continue;
      started.add(issuer);
      // Here and not before: keys that were withdrawn meanwhile are not among these.
      issuer.start(previous?.keysOf(client));
    }
    for (const issuer of before.difference(now)) issuer.end();
    this.#startAcceptors(previous);
    const kept = new Set(this.databases.values());
    for (const database of previous?.databases.values() ?? []) {
      if (!kept.has(database)) database.retire();
    }
  }

  #addAcceptor(client: NegotiateClient, previous: CallerSources | undefined): void {
    const key = acceptorKey(client, this.#krb5Config);
    const { spn, keys } = client;
    const known = this.acceptors.get(key) ?? previous?.acceptors.get(key);
    const acceptor = known ?? this.#all.create({ spn, keys, krb5Config: this.#krb5Config });
    this.acceptors.set(key, acceptor);
  }

  #startAcceptors(previous: CallerSources | undefined): void {
    const kept = new Set(this.acceptors.values());
    for (const acceptor of kept) acceptor.start();
    for (const acceptor of previous?.acceptors.values() ?? []) {
      if (!kept.has(acceptor)) void this.#all.retire(acceptor);
    }
  }

  acceptorOf(client: NegotiateClient): Acceptor {
    const acceptor = this.acceptors.get(acceptorKey(client, this.#krb5Config));
    if (acceptor === undefined) throw new Error(`no acceptor ${client.spn}`);
    return acceptor;
  }

  verifierOf(client: JwtClient): JwtVerifier {
    const issuer = this.issuers.get(client);
    if (issuer === undefined) throw new Error(`no issuer ${client.issuer}`);
    return issuer.verifier;
  }

  /** undefined: nobody verifies the callers' passwords here. */
  usersOf(client: BasicClient): UserDatabase | undefined {
    const database = this.databases.get(client);
    // A file that got lost on the way must never mean "nobody verifies" (fail closed).
    if (database === undefined && client.users !== undefined) throw new Error('no user database');
    return database;
  }

  /**
   * Keys that were loaded from the URL of this client. With other settings it has a verifier of its own,
   * which must not turn callers away until its first load, or for as long as the server is down.
   */
  keysOf({ jwks }: JwtClient): readonly PublicJwk[] | undefined {
    if (jwks.kind === 'file') return undefined;
    for (const [client, { remote }] of this.issuers) {
      const isSame = client.jwks.kind === 'url' && client.jwks.url === jwks.url;
      if (isSame && remote?.keys !== undefined) return remote.keys;
    }
    return undefined;
  }

  /** Of all issuers. */
  get names(): ReadonlySet<string> {
    return new Set(Array.from(this.issuers.keys(), ({ issuer }) => issuer));
  }

  /** Names of issuers that never had keys. */
  get unloaded(): readonly string[] {
    const issuers = [...new Set(this.issuers.values())];
    return issuers.filter(({ verifier }) => !verifier.loaded).map(({ issuer }) => issuer);
  }

  /** What is wrong with issuers and acceptors, for people. */
  get troubles(): readonly string[] {
    const acceptors = Array.from(this.acceptors.values(), ({ spn, trouble }) =>
      trouble === undefined ? [] : [`tickets for ${spn} cannot be checked: ${trouble}`],
    );
    const issuers = [...new Set(this.issuers.values())];
    return [...issuers.flatMap(({ trouble }) => trouble ?? []), ...acceptors.flat()];
  }

  end(): void {
    for (const issuer of new Set(this.issuers.values())) issuer.end();
  }
}

/** All that makes a ticket worth what it is: another way to keep it is another acceptor. */
const acceptorKey = (
  { spn, fingerprint, persist }: NegotiateClient,
  krb5Config: string | undefined,
): string => JSON.stringify([spn, fingerprint, persist, krb5Config]);

/** All that a verifier is made of; a file's keys may change under it. */
function keyOf({ jwks, ...settings }: JwtClient): string {
  return JSON.stringify([settings, jwks.kind === 'url' ? jwks.url : ['file', jwks.path]]);
}
