/**
 * The acceptors of the process and the folder that they share: a keytab for each, with the keys of one
 * service name and no others (hostile row A17), and one replay cache for all. A token that any of them
 * has seen is known to every later one, also after a helper or a configuration was replaced.
 */
import type { Clock } from '../../clock.ts';
import type { DeadlineWheel } from '../../deadlines.ts';
import type { Secret } from '../../identity/secret.ts';
import type { Log } from '../../log/log.ts';
import { Acceptor } from './acceptor.ts';
import { type HelperPlace, helperStarter, type StartHelper } from './helper-link.ts';
import { PrivateFolder } from './private-folder.ts';
import { surroundings } from './surroundings.ts';

/** Starts a helper that sees no more than its place. */
export type AcceptorHelper = (place: HelperPlace) => StartHelper;

export interface AcceptorsDeps {
  readonly deadlines: DeadlineWheel;
  readonly clock: Clock;
  readonly log: Log;
  readonly onHelperRestart: () => void;
  /** Default: processes. */
  readonly helper?: AcceptorHelper | undefined;
}

export interface AcceptorKeys {
  /** `HTTP/host`. */
  readonly spn: string;
  /** A keytab with the keys of that name alone. */
  readonly keys: Secret<Uint8Array>;
  /** undefined: the system's. */
  readonly krb5Config: string | undefined;
}

export class Acceptors {
  readonly #deps: AcceptorsDeps;
  /** Those that were started, with their keytabs: one of a configuration that is refused leaves nothing. */
  readonly #started = new Map<Acceptor, string>();
  #folder: PrivateFolder | undefined;
  #lastKeytab = 0;
  #isClosed = false;

  constructor(deps: AcceptorsDeps) {
    this.#deps = deps;
  }

  /** Starts nothing and writes nothing: the first helper does, when it is started. */
  create({ spn, keys, krb5Config }: AcceptorKeys): Acceptor {
    const { helper = helperStarter } = this.#deps;
    const startHelper: StartHelper = (events) => {
      if (this.#isClosed) throw new Error('the acceptors are closed');
      this.#folder ??= new PrivateFolder();
      const keytab = this.#started.get(acceptor) ?? this.#writeKeytab(this.#folder, keys);
      this.#started.set(acceptor, keytab);
      return helper(placeOf(this.#folder, keytab, krb5Config))(events);
    };
    const acceptor = new Acceptor(spn, { ...this.#deps, startHelper });
    return acceptor;
  }

  /** Nobody asks it any more: what is under way is finished, then its keys go. */
  async retire(acceptor: Acceptor): Promise<void> {
    await acceptor.retire();
    const keytab = this.#started.get(acceptor);
    this.#started.delete(acceptor);
    if (keytab !== undefined) this.#folder?.delete(keytab);
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    await Promise.all(Array.from(this.#started.keys(), (acceptor) => acceptor.close()));
    this.#folder?.remove();
  }

  #writeKeytab(folder: PrivateFolder, keys: Secret<Uint8Array>): string {
    this.#lastKeytab += 1;
    const keytab = folder.serviceKeytab(this.#lastKeytab);
    folder.write(keytab, keys.reveal());
    return keytab;
  }
}

const placeOf = (
  { path, replayCache }: PrivateFolder,
  keytab: string,
  krb5Config: string | undefined,
): HelperPlace => ({
  environment: {
    ...surroundings(krb5Config),
    KRB5_KTNAME: `FILE:${keytab}`,
    // By name since MIT 1.18; before, the folder alone can be chosen.
    KRB5RCACHENAME: `file2:${replayCache}`,
    KRB5RCACHEDIR: path,
  },
  folder: path,
});
