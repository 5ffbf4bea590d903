/**
 * Puts the Kerberos provider together: a private folder with the collection and the merged keytab,
 * one lane for all configured principals, another one for the ambient identity, started on first use.
 *
 * Two principals of one Kerberos name share its tickets: the package selects by name alone.
 */
import type { Clock } from '../../clock.ts';
import { Deadline, type DeadlineWheel } from '../../deadlines.ts';
import type { KerberosIdentity } from '../../identity/identity.ts';
import { realmOf } from '../../identity/principal-name.ts';
import type { Secret } from '../../identity/secret.ts';
import type { Log } from '../../log/log.ts';
import { RealmBreakers } from './breaker.ts';
import { CacheCopies } from './cache-copies.ts';
import { ClientKeytab } from './client-keytab.ts';
import {
  type HelperPlace,
  helperStarter,
  isPackagePresent,
  type StartHelper,
} from './helper-link.ts';
import { type Kinit, kinitRunner } from './kinit.ts';
import { Lane } from './lane.ts';
import { kerberosError } from './native-errors.ts';
import { PasswordTickets } from './password-tickets.ts';
import { PrivateFolder } from './private-folder.ts';
import type { KerberosInitiation, KerberosProvider } from './provider.ts';
import { kinitSurroundings, surroundings } from './surroundings.ts';

export interface KerberosProviderOptions {
  readonly identities: readonly KerberosIdentity[];
  /** The password in force of a principal, if it is this identity's. */
  readonly passwords: (identity: KerberosIdentity) => Secret<string> | undefined;
  /** undefined: the system's. */
  readonly krb5Config: string | undefined;
  /** What KRB5CCNAME says, for `ambient`; undefined: the library's default. */
  readonly defaultCache?: string | undefined;
  readonly deadlines: DeadlineWheel;
  readonly clock: Clock;
  readonly log: Log;
  /** For one token, waiting included. */
  readonly deadlineMs: number;
  readonly onHelperRestart?: () => void;
}

/** The processes that the provider starts. Tests put stand-ins in their place. */
export interface KerberosProcesses {
  readonly isPackagePresent: () => boolean;
  readonly helper: (place: HelperPlace) => StartHelper;
  readonly kinit: (environment: Readonly<Record<string, string>>) => Kinit;
}

/**
 * Starts the helper at once where a principal is configured that needs it. Keytabs are merged before
 * this returns; the owner ends everything by `close`.
 */
export function createKerberosProvider(
  options: KerberosProviderOptions,
  processes: KerberosProcesses = {
    isPackagePresent,
    helper: helperStarter,
    kinit: (environment) => kinitRunner(environment, options),
  },
): KerberosProvider {
  return new NpmKerberosProvider(options, processes);
}

class NpmKerberosProvider implements KerberosProvider {
  readonly #folder = new PrivateFolder();
  readonly #breakers: RealmBreakers;
  readonly #configured: Lane;
  readonly #ambient: Lane;
  readonly #keytab: ClientKeytab;
  readonly #copies: CacheCopies;
  readonly #passwords: PasswordTickets;
  /** Cache files of credentials whose tickets the library does not fetch itself. */
  readonly #files = new Map<string, string>();
  #lastFile = 0;
  readonly #log: Log;
  readonly #deadlines: DeadlineWheel;
  readonly #clock: Clock;
  readonly #deadlineMs: number;
  #identities: readonly KerberosIdentity[];
  #isClosed = false;

  constructor(options: KerberosProviderOptions, processes: KerberosProcesses) {
    const { deadlines, clock, log, deadlineMs, onHelperRestart = () => undefined } = options;
    this.#identities = options.identities;
    this.#deadlines = deadlines;
    this.#clock = clock;
    this.#deadlineMs = deadlineMs;
    this.#breakers = new RealmBreakers(clock);
    const shared = { breakers: this.#breakers, deadlines, clock, log, onHelperRestart };
    const places = helperPlaces(options, this.#folder);
    const lane = (place: HelperPlace): Lane =>
      new Lane({ ...shared, startHelper: processes.helper(place) }, deadlineMs);
    this.#configured = lane(places.configured);
    this.#ambient = lane(places.ambient);
    this.#keytab = new ClientKeytab(this.#folder, log);
    this.#copies = new CacheCopies(this.#folder, { clock, log });
    this.#passwords = new PasswordTickets({
      folder: this.#folder,
      kinit: processes.kinit(places.kinit),
      passwords: options.passwords,
      breakers: this.#breakers,
      deadlines,
      clock,
      log,
      renewed: (name) => this.#configured.forget(name),
      realmFailed: (realm, error) => {
        this.#breakers.failed(realm, error);
        this.#configured.realmFailed(realm, error);
      },
    });
    this.#log = log;
    this.#keytab.update(this.#identities);
    if (!processes.isPackagePresent()) {
      this.#configured.declareMissing('the package cannot be resolved');
      this.#ambient.missing = this.#configured.missing;
    }
    if (this.#identities.some(({ source }) => source !== 'ambient')) this.#configured.start();
  }

  get available(): boolean {
    return this.#configured.missing === undefined && this.#ambient.missing === undefined;
  }

  async initiate(
    identity: KerberosIdentity,
    spn: string,
    signal: AbortSignal,
  ): Promise<KerberosInitiation> {
    const { name, source } = identity;
    if (source === 'ambient' || name === undefined) {
      const facts = { principal: undefined, spn, realm: '' };
      return this.#ambient.initiate(facts, signal, this.#deadlineMs);
    }
    if (this.#isClosed) throw kerberosError('shutting-down', 'the Kerberos provider is closed');
    const file = this.#file(identity);
    if (source === 'ccache') await this.#copy(identity, { file, isUrgent: false });
    const facts = { principal: name, spn, realm: realmOf(name) ?? '' };
    if (source !== 'password') return this.#configured.initiate(facts, signal, this.#deadlineMs);
    const start = this.#clock.now();
    await this.#within(this.#passwords.ensure(identity, file), signal);
    const left = this.#deadlineMs - (this.#clock.now() - start);
    return this.#configured.initiate(facts, signal, left);
  }

  async refresh(identities: readonly KerberosIdentity[] = this.#identities): Promise<void> {
    if (this.#isClosed) return;
    this.#identities = identities;
    try {
      await this.#apply(identities);
    } catch (error) {
      const reason = error instanceof Error ? error.message : 'unknown';
      this.#log.error({ reason }, 'changed Kerberos credentials could not be put into place');
    }
  }

  async #apply(identities: readonly KerberosIdentity[]): Promise<void> {
    this.#removeFilesBut(new Set(identities.map(fileKey)));
    for (const name of this.#keytab.update(identities)) this.#configured.forget(name);
    this.#passwords.refresh(identities.filter(({ source }) => source === 'password'));
    const caches = identities.filter(({ source }) => source === 'ccache');
    await Promise.all(
      caches.map((identity) => {
        const file = this.#file(identity);
        return this.#copy(identity, { file, isUrgent: true });
      }),
    );
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#passwords.close();
    await Promise.all([this.#configured.close(), this.#ambient.close()]);
    this.#folder.remove();
  }

  /** Waits for work that others share, only as long as the call has time and is wanted. */
  async #within(work: Promise<void>, signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    const { promise: over, reject } = Promise.withResolvers<never>();
    const stop = (): void => reject(signal.reason);
    const deadline = new Deadline(() => {
      reject(kerberosError('kdc-timeout', 'no ticket came from the KDC in time'));
    });
    this.#deadlines.arm(deadline, this.#deadlineMs);
    signal.addEventListener('abort', stop);
    try {
      await Promise.race([work, over]);
    } finally {
      this.#deadlines.disarm(deadline);
      signal.removeEventListener('abort', stop);
    }
  }

  async #copy(
    identity: KerberosIdentity,
    { file, isUrgent }: { file: string; isUrgent: boolean },
  ): Promise<void> {
    const hasChanged = await this.#copies.update(identity, file, isUrgent);
    if (hasChanged && identity.name !== undefined) this.#configured.forget(identity.name);
  }

  #file(identity: KerberosIdentity): string {
    const key = fileKey(identity);
    const known = this.#files.get(key);
    if (known !== undefined) return known;
    this.#lastFile += 1;
    const file = this.#folder.cacheFile(this.#lastFile);
    this.#files.set(key, file);
    return file;
  }

  /** Nobody logs in any more with a credential that was taken out of the configuration. */
  #removeFilesBut(kept: ReadonlySet<string>): void {
    for (const [key, file] of this.#files) {
      if (kept.has(key)) continue;
      this.#files.delete(key);
      this.#copies.forget(file);
      this.#folder.delete(file);
    }
  }
}

// An entry of the configuration may become somebody else, or get its tickets from elsewhere.
const fileKey = ({ principal, name, source }: KerberosIdentity): string =>
  JSON.stringify([principal, name, source]);

/** What each kind of process sees of the outside. */
function helperPlaces(
  { krb5Config, defaultCache }: KerberosProviderOptions,
  folder: PrivateFolder,
): { configured: HelperPlace; ambient: HelperPlace; kinit: Readonly<Record<string, string>> } {
  const base = surroundings(krb5Config);
  return {
    configured: {
      environment: {
        ...base,
        KRB5CCNAME: `DIR:${folder.collection}`,
        KRB5_CLIENT_KTNAME: `FILE:${folder.clientKeytab}`,
      },
      folder: folder.path,
    },
    ambient: {
      environment: {
        ...base,
        ...(defaultCache === undefined ? {} : { KRB5CCNAME: defaultCache }),
      },
      folder: undefined,
    },
    kinit: kinitSurroundings(krb5Config),
  };
}
