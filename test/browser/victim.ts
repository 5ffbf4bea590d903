/**
 * What is attacked: a daemon on loopback that logs in as alice for whoever calls it, in front of an
 * upstream that tells every page everything. So nothing but the daemon's own rule keeps a page out.
 */
import { startDaemon, type TestDaemon } from '../support/daemon.ts';
import { startScriptedUpstream, type ScriptedUpstream } from '../support/scripted-upstream.ts';
import type { RequestRecord } from '../support/upstream-journal.ts';
import type { ResponseScript, UpstreamRequest } from '../support/upstream-options.ts';
import { until } from '../support/waiting.ts';
import { ALL_MEANS, ATTACK_PAGE, MEANS, type Means, type Plan } from './attacker.ts';
import { BROWSER_DEADLINE_MS } from './chromium.ts';

/** In every answer of the upstream, whatever its form. */
export const SECRET = 'for alice only';

/** The user as whom the daemon is logged in. */
export const USER = 'LAB\\alice';

const ACCESS = /"path":"\/try\/([a-z-]+)","status":(\d+)/g;

/** What an image tells: how wide it is. */
const WIDTH = 37;

export interface VictimSetup {
  /** More keys, as text inside YAML braces. */
  readonly listener?: string;
  readonly route?: string;
  readonly admin?: string;
}

/** Upstream and daemon, ended together. */
export class Victim {
  readonly upstream: ScriptedUpstream;
  readonly daemon: TestDaemon;

  static async start({ listener, route, admin }: VictimSetup = {}): Promise<Victim> {
    const upstream = await startTalkativeUpstream('ntlm');
    const more = (keys: string | undefined): string => (keys === undefined ? '' : `, ${keys}`);
    const daemon = await startDaemon({
      config: `version: 1
admin: { listen: 127.0.0.1:0${more(admin)} }
principals: { alice: { username: 'LAB\\alice', password: { env: ALICE } } }
upstreams: { origin: { url: '${upstream.url}', auth: { principal: alice, schemes: [ntlm] } } }
listeners:
  - { name: main, listen: 127.0.0.1:0, mode: reverse${more(listener)}, routes: [ { upstream: origin${more(route)} } ] }
`,
      secrets: { ALICE: 'alice-secret' },
    });
    return new Victim(upstream, daemon);
  }

  constructor(upstream: ScriptedUpstream, daemon: TestDaemon) {
    this.upstream = upstream;
    this.daemon = daemon;
  }

  get port(): number {
    return this.daemon.address().port;
  }

  get adminPort(): number {
    return this.daemon.adminAddress.port;
  }

  /** Statuses of the access log for the URL of each of these means, once there is one for each. */
  async loggedStatuses(means: readonly Means[]): Promise<Map<Means, Set<number>>> {
    const statuses = new Map<Means, Set<number>>();
    const isComplete = (): boolean => {
      statuses.clear();
      for (const [, name, status] of this.daemon.logText.matchAll(ACCESS)) {
        const own = statuses.get(name as Means) ?? new Set();
        statuses.set(name as Means, own.add(Number(status)));
      }
      return means.every((name) => statuses.has(name));
    };
    await until(isComplete, `access lines for ${means.join(', ')}`, BROWSER_DEADLINE_MS);
    return new Map(means.map((name) => [name, statuses.get(name) ?? new Set()]));
  }

  /** Resolves once the admin listener has refused `count` requests. */
  async adminRefused(count: number): Promise<void> {
    const refusals = (): number => this.daemon.logText.split('"admin: refused"').length - 1;
    const what = `${count} refusals of the admin listener`;
    await until(() => refusals() >= count, what, BROWSER_DEADLINE_MS);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.daemon[Symbol.asyncDispose]();
    await this.upstream[Symbol.asyncDispose]();
  }
}

/** An upstream whose answers any page may read, in the form that each means of attack needs. */
export function startTalkativeUpstream(scheme: 'ntlm' | 'none'): Promise<ScriptedUpstream> {
  return startScriptedUpstream({ scheme, handler: tell });
}

/** One URL for each means, which ends in its name. */
export function planAt(base: string, means: readonly Means[]): Plan {
  return means.map((name) => [name, `${base}/try/${name}`]);
}

/** The means whose own request, and not only its preflight, was served. */
export function executedMeans(requests: readonly RequestRecord[], user?: string): Means[] {
  const served = new Set(
    requests
      .filter((request) => request.user === user && [200, 101].includes(request.status))
      .map(({ method, target }) => `${method} ${target}`),
  );
  return ALL_MEANS.filter((name) => served.has(`${MEANS[name]} /try/${name}`));
}

function tell(request: UpstreamRequest): ResponseScript {
  const name = request.target.split('/').at(-1) ?? '';
  if (name === 'websocket' && request.field('upgrade') !== undefined) {
    return { upgrade: 'websocket' };
  }
  const [type, body] = FORMS[name.replace('-bounced', '')] ?? ['text/plain', SECRET];
  return {
    fields: [
      ['Content-Type', type],
      ['Access-Control-Allow-Origin', request.field('origin') ?? '*'],
      ['Access-Control-Allow-Credentials', 'true'],
      ['Access-Control-Allow-Methods', 'GET, POST, PUT, DELETE'],
      ['Access-Control-Allow-Headers', 'Content-Type, X-Sidekerb-Admin'],
      ['Cross-Origin-Resource-Policy', 'cross-origin'],
    ],
    body,
  };
}

const DOCUMENT = `<!doctype html><title>told</title><p>${SECRET}</p><script>
if (parent !== window) parent.postMessage({ leak: '${SECRET}' }, '*');
</script>`;

const FORMS: Readonly<Record<string, readonly [type: string, body: string]>> = {
  image: [
    'image/svg+xml',
    `<svg xmlns="http://www.w3.org/2000/svg" width="${WIDTH}" height="5"></svg>`,
  ],
  script: ['text/javascript', `globalThis.leaked = '${SECRET}';`],
  module: ['text/javascript', `export const leaked = '${SECRET}';`],
  style: ['text/css', `:root { --leaked: ${SECRET}; }`],
  frame: ['text/html', DOCUMENT],
  object: ['text/html', DOCUMENT],
  document: ['text/html', DOCUMENT],
  page: ['text/html', ATTACK_PAGE.toString()],
  'event-source': ['text/event-stream', `data: ${SECRET}\n\n`],
};
