/** squid's access log as far as tests ask it: who a parent says it served, on which socket. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { squidLog } from './components/squid.ts';
import type { LabFacts } from './lab.ts';

/** One request that squid has answered; of a tunnel, once it has ended. */
export interface SquidLine {
  /** squid's own port. */
  readonly port: number;
  /** The port of the client's socket. */
  readonly clientPort: string;
  readonly status: number;
  readonly method: string;
  /** The authority of a tunnel. */
  readonly url: string;
  /** `-` where squid knows none. */
  readonly user: string;
}

/** The lines about `authority` (host and port) so far. */
export function squidLines(lab: LabFacts, authority: string): SquidLine[] {
  const text = readFileSync(squidLog(join(lab.folder, 'squid')), 'latin1');
  return text
    .split('\n')
    .slice(0, -1)
    .map((line) => {
      const [, port, clientPort = '', status, method = '', url = '', user = ''] = line.split(' ');
      return { port: Number(port), clientPort, status: Number(status), method, url, user };
    })
    .filter(({ url }) => url === authority || url.startsWith(`http://${authority}/`));
}
