/**
 * The lab's realm once more, with a KDC whose clock is off (libfaketime): a copy of the
 * database, so that it gives tickets that the lab's servers can open and find out of their time.
 */
import { cpSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { kdcFile, REALM, writeKrb5Conf } from './kdc.ts';
import type { LabFacts } from './lab.ts';
import { takePortBlock } from './ports.ts';
import { accepts, command, giveToLabUser, startProcess } from './processes.ts';

export interface SkewedKdc extends AsyncDisposable {
  /** A client that trusts its own clock. */
  readonly strict: string;
  /** A client that follows the KDC's clock, as MIT Kerberos does by itself. */
  readonly following: string;
}

/** Starts it; `offset` as libfaketime takes it. */
export async function startSkewedKdc(lab: LabFacts, offset = '+2h'): Promise<SkewedKdc> {
  await using stack = new AsyncDisposableStack();
  const { base } = stack.use(await takePortBlock());
  const port = base + 1;
  const original = join(lab.folder, 'kdc');
  const folder = join(lab.folder, `kdc-${port}`);
  cpSync(original, folder, { recursive: true });
  const settings = join(folder, 'kdc.conf');
  const text = readFileSync(settings, 'utf8')
    .replaceAll(original, folder)
    .replaceAll(`:${lab.ports.kdc}`, `:${port}`);
  writeFileSync(settings, text);
  const following = kdcFile.krb5Conf(folder);
  writeKrb5Conf(following, { port });
  const strict = join(folder, 'strict.conf');
  const ownClock = '[libdefaults]\n  kdc_timesync = 0';
  writeFileSync(strict, readFileSync(following, 'utf8').replace('[libdefaults]', ownClock));
  await giveToLabUser(folder);
  const kdc = startProcess({
    name: 'skewed-kdc',
    folder,
    command: command('faketime'),
    args: ['-f', offset, command('krb5kdc'), '-n', '-r', REALM],
    environment: { KRB5_CONFIG: following, KRB5_KDC_PROFILE: settings },
  });
  stack.defer(() => kdc.stop());
  await kdc.ready(() => accepts(port));
  const running = stack.move();
  return { strict, following, [Symbol.asyncDispose]: () => running.disposeAsync() };
}
