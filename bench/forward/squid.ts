/** squid as a forward proxy: straight to targets, or through a parent by Kerberos. */

import { startSquid } from '../squid-process.ts';
import type { ForwardContext, ForwardSubject } from './forward-subject.ts';

export const squidForward: ForwardSubject = {
  requires: { program: 'squid', debianPackage: 'squid' },
  start: ({ folder, core, port, way }) =>
    startSquid({
      folder,
      core,
      way: `http_port 127.0.0.1:${port}\n${route(way)}`,
      ...(way.kind === 'parent'
        ? { env: { KRB5_CONFIG: way.account.krb5Config, KRB5_KTNAME: way.account.keytab } }
        : {}),
    }),
};

function route(way: ForwardContext['way']): string {
  if (way.kind !== 'parent') return '';
  return `cache_peer localhost parent ${way.port} 0 no-query no-digest no-netdb-exchange default login=NEGOTIATE
never_direct allow all
`;
}
