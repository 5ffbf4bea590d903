/** haproxy in mode tcp: one port to one port. */

import { startHaproxy } from '../haproxy-process.ts';
import type { ForwardSubject } from './forward-subject.ts';

export const haproxyForward: ForwardSubject = {
  requires: { program: 'haproxy', debianPackage: 'haproxy' },
  start: async ({ folder, core, port, way }) => {
    if (way.kind !== 'port') throw new Error('haproxy in mode tcp leads to one port');
    const server = `127.0.0.1:${way.port}`;
    return startHaproxy({ folder, core, port, defaults: ['mode tcp'], server });
  },
};
