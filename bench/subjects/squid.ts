/** squid as an accelerator. */

import { startSquid } from '../squid-process.ts';
import type { Subject } from './subject.ts';

export const squid: Subject = {
  name: 'squid',
  requires: { program: 'squid', debianPackage: 'squid' },
  start: ({ folder, core, port, openOriginPort }) =>
    startSquid({
      folder,
      core,
      way: `http_port 127.0.0.1:${port} accel defaultsite=127.0.0.1 no-vhost
cache_peer 127.0.0.1 parent ${openOriginPort} 0 no-query no-digest no-netdb-exchange originserver name=origin
cache_peer_access origin allow all
never_direct allow all
`,
    }),
};
