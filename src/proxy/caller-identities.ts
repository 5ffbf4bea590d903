/**
 * Identities of `from: client` principals: made of the user name and password that a caller brings,
 * kept while they are used. The cache is bounded; what is idle leaves it, and the password with it.
 *
 * `user@REALM` and a bare `user` log in by Kerberos where the machine's Kerberos configuration names the
 * realm, a bare one in the default realm; NTLM follows, with the name as it was sent. `DOMAIN\user` is
 * NTLM. Realms are compared without case and used as the configuration spells them: Windows users
 * write their domain in lower case, and no caller may choose whose KDC is asked.
 *
 * They are found by the digest that a caller's credentials have anyway; nothing is hashed for a caller
 * who is known. Everything that tells two secrets apart enters digests in full width (R4, R9, R46, R47).
 * An identity made again is equal to the one that left, so that nobody depends on how long it was kept.
 */
import { ntowfv1 } from '../auth/ntlm/ntlmv2.ts';
import type { KerberosRealms } from '../config/kerberos-realms.ts';
import { Deadline, type DeadlineWheel } from '../deadlines.ts';
import {
  createCombinedIdentity,
  createKerberosIdentity,
  createNtlmIdentity,
  type KerberosIdentity,
  type LoginIdentity,
  type NtlmIdentity,
  WORKSTATION,
  withAccount,
} from '../identity/identity.ts';
import { callerSecret } from '../identity/secret-version.ts';
import type { Secret } from '../identity/secret.ts';
import type { BasicCaller } from '../inbound/caller.ts';
import { BoundedMap } from '../bounded-map.ts';

/** As long as a keep-alive connection may be silent by default, several times over. */
const IDLE_MS = 10 * 60_000;

export interface CallerIdentitiesOptions {
  readonly deadlines: DeadlineWheel;
  /** Most identities that are kept. */
  readonly max: number;
  readonly realms: KerberosRealms;
  /** Some upstream may be logged in to with a password itself. */
  readonly keepsPasswords?: boolean;
}

interface Entry {
  readonly principal: string;
  readonly identity: LoginIdentity;
  /** Of the Kerberos part, for `passwordOf`; undefined: none. */
  readonly secretId: string | undefined;
  readonly idle: Deadline;
  /** It left the cache: to be made again. */
  gone: boolean;
}

export class CallerIdentities {
  readonly #deadlines: DeadlineWheel;
  readonly #entries: BoundedMap<Entry>;
  readonly #passwords = new Map<string, { readonly password: Secret<string>; holders: number }>();
  /** Requests of one connection bring the same object. */
  readonly #latest = new WeakMap<BasicCaller, Entry>();
  #realms: KerberosRealms;
  #keepsPasswords: boolean;

  constructor({ deadlines, max, realms, keepsPasswords = false }: CallerIdentitiesOptions) {
    this.#deadlines = deadlines;
    this.#realms = realms;
    this.#keepsPasswords = keepsPasswords;
    this.#entries = new BoundedMap(max, (entry) => this.#left(entry));
  }

  /** Identities that are kept now. */
  get size(): number {
    return this.#entries.size;
  }

  /** Of the entry `principal` under `principals`, for this caller. Equal input, equal identity. */
  of(principal: string, caller: BasicCaller): LoginIdentity {
    let entry = this.#latest.get(caller);
    if (entry === undefined || entry.gone || entry.principal !== principal) {
      const key = keyOf(principal, caller);
      entry = this.#entries.find(key) ?? this.#make(principal, caller, key);
      this.#latest.set(caller, entry);
    }
    this.#deadlines.arm(entry.idle, IDLE_MS);
    return entry.identity;
  }

  /** What a caller's Kerberos identity proves itself with; undefined once nobody uses it. */
  passwordOf(identity: KerberosIdentity): Secret<string> | undefined {
    return this.#passwords.get(identity.credential)?.password;
  }

  /** In force from now on; where something changed, identities are made anew. */
  reconfigure(realms: KerberosRealms, keepsPasswords = false): void {
    const isSame = JSON.stringify(realms) === JSON.stringify(this.#realms);
    if (isSame && keepsPasswords === this.#keepsPasswords) return;
    this.#realms = realms;
    this.#keepsPasswords = keepsPasswords;
    this.#entries.clear();
  }

  #make(principal: string, caller: BasicCaller, key: string): Entry {
    const name = kerberosName(caller.user, this.#realms);
    const ntlm = ntlmIdentity(principal, caller, this.#keepsPasswords);
    const kerberos = name === undefined ? undefined : kerberosIdentity(principal, name, caller);
    const secretId = kerberos?.credential;
    const entry: Entry = {
      principal,
      identity: withAccount(
        kerberos === undefined ? ntlm : createCombinedIdentity(kerberos, ntlm),
        foldAccount(kerberos?.account ?? ntlm.account),
      ),
      secretId,
      idle: new Deadline(() => this.#entries.forget(key)),
      gone: false,
    };
    if (secretId !== undefined) this.#hold(secretId, caller.password);
    this.#entries.keep(key, entry);
    return entry;
  }

  #hold(secretId: string, password: Secret<string>): void {
    const held = this.#passwords.get(secretId);
    if (held === undefined) this.#passwords.set(secretId, { password, holders: 1 });
    else held.holders += 1;
  }

  #left(entry: Entry): void {
    const { secretId, idle } = entry;
    entry.gone = true;
    this.#deadlines.disarm(idle);
    const held = secretId === undefined ? undefined : this.#passwords.get(secretId);
    if (secretId === undefined || held === undefined) return;
    held.holders -= 1;
    if (held.holders === 0) this.#passwords.delete(secretId);
  }
}

/** The name in Kerberos; undefined where this name has none. */
export function kerberosName(user: string, realms: KerberosRealms): string | undefined {
  const at = user.lastIndexOf('@');
  const local = at < 0 ? user : user.slice(0, at);
  // What the library would take for several components, a realm, or an escape.
  if (local === '' || /[\\/@\s]/.test(local)) return undefined;
  const realm = at < 0 ? realms.default : realmNamed(user.slice(at + 1), realms);
  return realm === undefined ? undefined : `${local}@${realm}`;
}

function realmNamed(written: string, { known }: KerberosRealms): string | undefined {
  const folded = written.toLowerCase();
  return known.find((realm) => realm === written) ?? known.find((r) => r.toLowerCase() === folded);
}

/** A digest is always 64 digits: what follows it is the principal. */
const keyOf = (principal: string, { digest }: BasicCaller): string => `${digest}${principal}`;

function ntlmIdentity(
  principal: string,
  { user, password }: BasicCaller,
  keepsPassword: boolean,
): NtlmIdentity {
  const secret = callerSecret('ntlm', user, password);
  return createNtlmIdentity({
    principal,
    username: user,
    workstation: WORKSTATION,
    ntHash: secret.derive(ntowfv1),
    password: keepsPassword ? secret : undefined,
  });
}

/** The principal entry is no part of what was proven to the KDC: not of the version, nor of the name. */
function kerberosIdentity(
  principal: string,
  name: string,
  { password }: BasicCaller,
): KerberosIdentity {
  const { version } = callerSecret('kerberos', name, password);
  return createKerberosIdentity({
    principal,
    name,
    source: 'client',
    credential: version,
    version,
  });
}

/**
 * Spellings that a directory takes for one account are one to the guard: with the realm or without, in
 * any case, width, with accents, blanks at the ends or characters without a weight anywhere (Active
 * Directory compares names so). Two accounts that only differ in these are counted together.
 */
function foldAccount(account: string): string {
  const plain = account.normalize('NFKD').replaceAll(WEIGHTLESS, '');
  const trimmed = plain.trim().replaceAll(/\s*([\\@])\s*/g, '$1');
  return trimmed.toUpperCase().toLowerCase();
}

/** Accents, what formats, what is not seen, and what no version of Unicode has a character for yet. */
const WEIGHTLESS = /[\p{M}\p{Cf}\p{Cn}\p{DI}]/gu;
