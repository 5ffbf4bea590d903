/** The peers that are small programs of this folder, run by the Node that runs the benchmarks. */

import { join } from 'node:path';
import { Child } from '../child.ts';
import type { SubjectName } from '../subject-names.ts';
import type { Subject } from './subject.ts';

/** A pipe between two sockets: what Node costs without HTTP. */
export const nodeRelay = nodePeer('node-relay');

/** http-proxy-3 with an agent that keeps connections to the origin. */
export const httpProxy3 = nodePeer('http-proxy-3');

function nodePeer(name: SubjectName): Subject {
  const program = join(import.meta.dirname, `../peers/${name}.ts`);
  return {
    name,
    requires: undefined,
    start: ({ port, openOriginPort, core }) =>
      Child.start({
        name,
        command: process.execPath,
        args: [program, String(port), String(openOriginPort)],
        core,
      }),
  };
}
