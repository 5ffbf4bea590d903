/**
 * The endpoints of the admin listener: which path and method does what, and with what answer.
 *
 * Knows nothing of sockets; who may ask at all is `web-page-rule.ts`.
 */
import type { Log } from '../log/log.ts';
import {
  publicConfig,
  publicPools,
  publicReadiness,
  publicReload,
  publicStatus,
} from './public-data.ts';
import { STATUS_PAGE_POLICY, renderStatusPage } from './status-page.ts';
import type { AdminView } from './view.ts';

export interface Answer {
  readonly status: number;
  readonly contentType: string;
  readonly body: string;
  readonly fields?: Readonly<Record<string, string>>;
}

export interface EndpointDeps {
  readonly view: AdminView;
  readonly metrics: { readonly contentType: string; render(): Promise<string> };
  readonly log: Log;
}

export interface Call {
  readonly method: string;
  /** Path of the target, not decoded, without query. */
  readonly path: string;
  /** Who asks, for the audit line: an address, or `unix`. */
  readonly peer: string;
}

/** `probes` is for orchestrators and scrapers that reach the daemon from outside. */
export type EndpointSet = 'admin' | 'probes';

/** The answer to a call. Rejects only when the view or the metrics throw. */
export async function answerCall(
  call: Call,
  set: EndpointSet,
  deps: EndpointDeps,
): Promise<Answer> {
  const read = READS[call.path];
  if (read !== undefined && (set === 'admin' || read.probe)) {
    if (call.method !== 'GET' && call.method !== 'HEAD') return wrongMethod('GET, HEAD');
    return read.answer(deps);
  }
  const write = set === 'admin' ? findWrite(call.path) : undefined;
  if (write === undefined) return json(404, { error: 'not-found' });
  if (call.method !== 'POST') return wrongMethod('POST');
  return write(call, deps);
}

/** A JSON answer. */
export function json(status: number, data: unknown, fields: Record<string, string> = {}): Answer {
  const body = `${JSON.stringify(data)}\n`;
  return { status, contentType: 'application/json; charset=utf-8', body, fields };
}

interface Read {
  readonly probe: boolean;
  answer(deps: EndpointDeps): Answer | Promise<Answer>;
}

const READS: Readonly<Record<string, Read | undefined>> = {
  '/metrics': {
    probe: true,
    answer: async ({ metrics }) => ({
      status: 200,
      contentType: metrics.contentType,
      body: await metrics.render(),
    }),
  },
  '/healthz': { probe: true, answer: () => json(200, { live: true }) },
  '/readyz': {
    probe: true,
    answer: ({ view }) => {
      const { ready, reasons, degraded } = publicReadiness(view.ready());
      if (ready) return json(200, { ready, degraded });
      return json(503, { ready, reasons, degraded });
    },
  },
  '/': {
    probe: false,
    answer: ({ view }) => ({
      status: 200,
      contentType: 'text/html; charset=utf-8',
      body: renderStatusPage(publicStatus(view.status()), publicPools(view.pools())),
      fields: { 'Content-Security-Policy': STATUS_PAGE_POLICY, 'Referrer-Policy': 'no-referrer' },
    }),
  },
  '/api/status': { probe: false, answer: ({ view }) => json(200, publicStatus(view.status())) },
  '/api/pools': {
    probe: false,
    answer: ({ view }) => json(200, { upstreams: publicPools(view.pools()) }),
  },
  '/api/config': { probe: false, answer: ({ view }) => json(200, publicConfig(view.config())) },
};

type Write = (call: Call, deps: EndpointDeps) => Answer | Promise<Answer>;

const NAMED_WRITES: readonly {
  readonly pattern: RegExp;
  readonly action: string;
  readonly run: (view: AdminView, name: string) => boolean;
}[] = [
  {
    pattern: /^\/api\/pools\/([^/]+)\/drain$/,
    action: 'drain',
    run: (view, name) => view.drainUpstream(name),
  },
  {
    pattern: /^\/api\/principals\/([^/]+)\/flush$/,
    action: 'flush',
    run: (view, name) => view.flushPrincipal(name),
  },
];

function findWrite(path: string): Write | undefined {
  if (path === '/api/reload') return reload;
  for (const { pattern, action, run } of NAMED_WRITES) {
    const encoded = pattern.exec(path)?.[1];
    if (encoded === undefined) continue;
    return (call, deps) => mutate(action, encoded, call, deps, run);
  }
  return undefined;
}

/** 422: files are at fault; 503: something else kept it from being done. */
async function reload({ peer }: Call, { view, log }: EndpointDeps): Promise<Answer> {
  const report = publicReload(await view.reload());
  const { result } = report;
  log.warn({ audit: true, action: 'reload', outcome: result, peer }, 'admin: reload');
  if (result === 'ok') return json(200, { action: 'reload', ...report });
  return json(report.faults.length > 0 ? 422 : 503, { action: 'reload', ...report });
}

function mutate(
  action: string,
  encoded: string,
  call: Call,
  deps: EndpointDeps,
  run: (view: AdminView, name: string) => boolean,
): Answer {
  const name = decodeName(encoded);
  if (name === undefined) return json(400, { error: 'malformed-name' });
  const found = run(deps.view, name);
  // Only names of the configuration reach the log; a caller's text does not.
  const target = found ? name : undefined;
  const outcome = found ? 'done' : 'not-found';
  deps.log.warn({ audit: true, action, target, outcome, peer: call.peer }, `admin: ${action}`);
  if (!found) return json(404, { error: 'unknown-name' });
  return json(200, { action, name });
}

function decodeName(encoded: string): string | undefined {
  try {
    return decodeURIComponent(encoded);
  } catch {
    return undefined;
  }
}

function wrongMethod(allow: string): Answer {
  return json(405, { error: 'method-not-allowed' }, { Allow: allow });
}
