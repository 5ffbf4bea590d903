/**
 * The one Kerberos provider of the process, from the first configuration that has a principal for it.
 * It goes on through later ones: their credentials are put in place under calls that run.
 */
import { CallerKerberos } from '../auth/kerberos/caller-kerberos.ts';
import { createKerberosProvider } from '../auth/kerberos/kerberos-provider.ts';
import { kerberosError } from '../auth/kerberos/native-errors.ts';
import type { KerberosInitiation, KerberosProvider } from '../auth/kerberos/provider.ts';
import type { Clock } from '../clock.ts';
import type { Config } from '../config/config.ts';
import type { DeadlineWheel } from '../deadlines.ts';
import type { KerberosTokens } from '../establish/mechanisms.ts';
import type { KerberosIdentity } from '../identity/identity.ts';
import type { Secret } from '../identity/secret.ts';
import type { Log } from '../log/log.ts';
import type { LoginIdentity } from '../identity/identity.ts';

/** For one token, waiting included; below the times that a login, and a place in line, may take by default. */
const TOKEN_MS = 4000;

export interface KerberosWiring {
  readonly deadlines: DeadlineWheel;
  readonly clock: Clock;
  readonly log: Log;
  readonly onHelperRestart: () => void;
  /** What a caller's identity proves itself with. */
  readonly callerPasswords: (identity: KerberosIdentity) => Secret<string> | undefined;
}

export class KerberosTickets implements KerberosTokens {
  readonly #wiring: KerberosWiring;
  #config: Config | undefined;
  /** What the processes were started with: it stays. */
  #settings: Config['kerberos'] | undefined;
  #provider: KerberosProvider | undefined;
  /** From the first caller on who needs it. */
  #callers: CallerKerberos | undefined;
  #isClosed = false;

  constructor(wiring: KerberosWiring) {
    this.#wiring = wiring;
  }

  /**
   * The configuration in force from now on, and its identities. Keys and passwords count at once.
   * Throws where the provider cannot be made; then what was in force stays.
   */
  use(config: Config, all: ReadonlyMap<string, LoginIdentity>): void {
    const identities = [...all.values()].flatMap(kerberosPart);
    const known = this.#provider;
    if (known === undefined && identities.length > 0) {
      const { config: krb5Config, defaultCache } = this.#settings ?? config.kerberos;
      this.#provider = createKerberosProvider({
        ...this.#wiring,
        identities,
        passwords: (identity) => this.#config && passwordOf(this.#config, identity),
        krb5Config,
        defaultCache,
        deadlineMs: TOKEN_MS,
      });
      this.#settings ??= config.kerberos;
    }
    this.#config = config;
    void known?.refresh(identities);
  }

  /** Keys of `next` that count only after a restart. */
  restartNeeded(next: Config): string[] {
    const fixed = this.#settings;
    if (fixed === undefined) return [];
    const keys = ['config', 'provider'] as const;
    return keys.filter((key) => fixed[key] !== next.kerberos[key]).map((key) => `kerberos.${key}`);
  }

  /** As `KerberosProvider.initiate`. */
  async initiate(
    identity: KerberosIdentity,
    spn: string,
    signal: AbortSignal,
  ): Promise<KerberosInitiation> {
    if (identity.source === 'client') return this.#ofCallers().initiate(identity, spn, signal);
    const provider = this.#provider;
    if (provider === undefined) {
      throw kerberosError('mechanism-unavailable', 'no principal is configured for Kerberos');
    }
    return provider.initiate(identity, spn, signal);
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    await Promise.all([this.#provider?.close(), this.#callers?.close()]);
  }

  #ofCallers(): CallerKerberos {
    if (this.#isClosed) throw kerberosError('shutting-down', 'Kerberos is closed');
    this.#settings ??= this.#config?.kerberos;
    this.#callers ??= new CallerKerberos({
      ...this.#wiring,
      passwords: this.#wiring.callerPasswords,
      krb5Config: this.#settings?.config,
      deadlineMs: TOKEN_MS,
    });
    return this.#callers;
  }
}

/**
 * The password that `config` has for an identity of it, or of one before: where the entry is another
 * person now, there is none. It would be refused, and counted for the wrong account.
 */
export function passwordOf(config: Config, identity: KerberosIdentity): Secret<string> | undefined {
  const principal = config.principals[identity.principal];
  const part = principal?.kind === 'client' ? undefined : principal?.kerberos;
  if (part?.source !== 'password' || part.principal !== identity.name) return undefined;
  return part.password;
}

function kerberosPart(identity: LoginIdentity): KerberosIdentity[] {
  if (identity.kind === 'kerberos') return [identity];
  return identity.kind === 'combined' ? [identity.kerberos] : [];
}
