/** haproxy in mode http: connections to the origin are reused always. */

import { startHaproxy } from '../haproxy-process.ts';
import type { Subject } from './subject.ts';

export const haproxy: Subject = {
  name: 'haproxy',
  requires: { program: 'haproxy', debianPackage: 'haproxy' },
  start: ({ folder, core, port, openOriginPort }) =>
    startHaproxy({
      folder,
      core,
      port,
      defaults: ['mode http', 'http-reuse always'],
      server: `127.0.0.1:${openOriginPort} pool-purge-delay 60s`,
    }),
};
