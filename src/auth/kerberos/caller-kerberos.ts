/**
 * Tokens for callers who bring a password: a helper, a folder and a collection of their own, apart from
 * those of configured principals, because tickets are selected by name alone. Started on first use.
 */
import type { Clock } from '../../clock.ts';
import type { DeadlineWheel } from '../../deadlines.ts';
import { errorCode } from '../../errors.ts';
import type { KerberosIdentity } from '../../identity/identity.ts';
import { realmOf } from '../../identity/principal-name.ts';
import type { Secret } from '../../identity/secret.ts';
import type { Log } from '../../log/log.ts';
import { RealmBreakers } from './breaker.ts';
import { CallerTickets } from './caller-tickets.ts';
import { helperStarter, isPackagePresent } from './helper-link.ts';
import type { KerberosProcesses } from './kerberos-provider.ts';
import { kinitRunner } from './kinit.ts';
import { Lane } from './lane.ts';
import { PrivateFolder } from './private-folder.ts';
import type { KerberosInitiation } from './provider.ts';
import { kinitSurroundings, surroundings } from './surroundings.ts';

export interface CallerKerberosOptions {
  /** The password of an identity that is in use. */
  readonly passwords: (identity: KerberosIdentity) => Secret<string> | undefined;
  /** undefined: the system's. */
  readonly krb5Config: string | undefined;
  readonly deadlines: DeadlineWheel;
  readonly clock: Clock;
  readonly log: Log;
  /** For one kinit, and for one token. */
  readonly deadlineMs: number;
  readonly onHelperRestart: () => void;
}

/** Its owner ends it by `close`. */
export class CallerKerberos {
  readonly #folder = new PrivateFolder();
  readonly #lane: Lane;
  readonly #tickets: CallerTickets;
  readonly #deadlineMs: number;

  constructor(
    options: CallerKerberosOptions,
    processes: KerberosProcesses = {
      isPackagePresent,
      helper: helperStarter,
      kinit: (environment) => kinitRunner(environment, options),
    },
  ) {
    const { krb5Config, deadlineMs, passwords, clock } = options;
    const breakers = new RealmBreakers(clock);
    const environment = {
      ...surroundings(krb5Config),
      KRB5CCNAME: `DIR:${this.#folder.collection}`,
      // There is none: the machine's own must not stand in.
      KRB5_CLIENT_KTNAME: `FILE:${this.#folder.clientKeytab}`,
    };
    const startHelper = processes.helper({ environment, folder: this.#folder.path });
    const lane = new Lane({ ...options, breakers, startHelper }, deadlineMs);
    this.#lane = lane;
    this.#deadlineMs = deadlineMs;
    this.#tickets = new CallerTickets({
      folder: this.#folder,
      kinit: processes.kinit(kinitSurroundings(krb5Config)),
      breakers,
      clock,
      passwords,
      changed: (name) => lane.forget(name),
      realmFailed: (realm, error) => {
        breakers.failed(realm, error);
        lane.realmFailed(realm, error);
      },
    });
    if (!processes.isPackagePresent()) lane.declareMissing('the package cannot be resolved');
  }

  /** As `KerberosProvider.initiate`; the password is proven first, whether or not the caller stays. */
  async initiate(
    identity: KerberosIdentity,
    spn: string,
    signal: AbortSignal,
  ): Promise<KerberosInitiation> {
    // No password goes to a KDC for tokens that cannot be made.
    if (this.#lane.missing !== undefined) throw this.#lane.missing;
    await this.#tickets.prove(identity);
    try {
      return await this.#token(identity, spn, signal);
    } catch (error) {
      // Another caller's tickets made room meanwhile, or took the place of these.
      if (errorCode(error) !== 'credential-missing') throw error;
      this.#tickets.distrust(identity);
    }
    await this.#tickets.prove(identity);
    return this.#token(identity, spn, signal);
  }

  async close(): Promise<void> {
    this.#tickets.close();
    await this.#lane.close();
    this.#folder.remove();
  }

  #token(
    { name = '' }: KerberosIdentity,
    spn: string,
    signal: AbortSignal,
  ): Promise<KerberosInitiation> {
    const facts = { principal: name, spn, realm: realmOf(name) ?? '' };
    return this.#lane.initiate(facts, signal, this.#deadlineMs);
  }
}
