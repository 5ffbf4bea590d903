/**
 * A process with a Kerberos provider that gets one token, says so, and waits to be killed: for the
 * test that nothing of it outlives it. Arguments: krb5.conf, keytab, `user@REALM`.
 */
import { createKerberosProvider } from '../../../src/auth/kerberos/kerberos-provider.ts';
import { systemClock } from '../../../src/clock.ts';
import { DeadlineWheel } from '../../../src/deadlines.ts';
import { createKerberosIdentity } from '../../../src/identity/identity.ts';
import { noLog } from '../../../src/log/log.ts';
import { credentialVersion } from '../../support/versioned-secrets.ts';

const [krb5Config, credential = '', name] = process.argv.slice(2);
const deadlines = new DeadlineWheel(systemClock);
deadlines.start();
const who = createKerberosIdentity({
  principal: 'lab',
  name,
  source: 'keytab',
  credential,
  version: credentialVersion(),
});
const provider = createKerberosProvider({
  identities: [who],
  passwords: () => undefined,
  krb5Config,
  deadlines,
  clock: systemClock,
  log: noLog,
  deadlineMs: 5000,
});
await provider.initiate(who, 'HTTP/localhost', new AbortController().signal);
console.log('ready');
