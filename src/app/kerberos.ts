/** The Kerberos provider, where the configuration has a principal that needs one. */
import { createKerberosProvider } from '../auth/kerberos/kerberos-provider.ts';
import type { KerberosProvider } from '../auth/kerberos/provider.ts';
import type { Clock } from '../clock.ts';
import type { Config } from '../config/config.ts';
import type { DeadlineWheel } from '../deadlines.ts';
import type { KerberosIdentity } from '../identity/identity.ts';
import type { Secret } from '../identity/secret.ts';
import type { Log } from '../log/log.ts';
import type { LoginIdentity } from './identities.ts';

/** For one token, waiting included; below the time that a login may take. */
const TOKEN_MS = 5000;

export interface KerberosWiring {
  readonly config: Config;
  readonly identities: ReadonlyMap<string, LoginIdentity>;
  readonly deadlines: DeadlineWheel;
  readonly clock: Clock;
  readonly log: Log;
  readonly onHelperRestart: () => void;
}

/** undefined when no principal has a Kerberos part. */
export function createKerberos(wiring: KerberosWiring): KerberosProvider | undefined {
  const { config, deadlines, clock, log, onHelperRestart } = wiring;
  const identities = [...wiring.identities.values()].flatMap(kerberosPart);
  if (identities.length === 0) return undefined;
  return createKerberosProvider({
    identities,
    passwords: (principal) => passwordOf(config, principal),
    krb5Config: config.kerberos.config,
    defaultCache: config.kerberos.defaultCache,
    deadlines,
    clock,
    log,
    deadlineMs: TOKEN_MS,
    onHelperRestart,
  });
}

function kerberosPart(identity: LoginIdentity): KerberosIdentity[] {
  if (identity.kind === 'kerberos') return [identity];
  return identity.kind === 'combined' ? [identity.kerberos] : [];
}

function passwordOf({ principals }: Config, name: string): Secret<string> | undefined {
  const part = principals[name]?.kerberos;
  return part?.source === 'password' ? part.password : undefined;
}
