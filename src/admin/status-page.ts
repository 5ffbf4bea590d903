/**
 * The status page: one HTML document without scripts and without anything loaded from elsewhere.
 *
 * Decides how the status looks to a person. Its numbers are those of `/api/status` and `/api/pools`.
 */
import type { ConnectionCounts, LeaseCounts, StatusData, UpstreamPools } from './view.ts';

/** Nothing runs, nothing is fetched, nobody frames it. */
export const STATUS_PAGE_POLICY =
  "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/** Text that stands for itself and cannot end the element or attribute around it. */
export function escapeHtml(text: string): string {
  return text.replace(/[&<>"'`]/g, (character) => `&#${character.charCodeAt(0)};`);
}

/** The page as HTML. */
export function renderStatusPage(status: StatusData, pools: readonly UpstreamPools[]): string {
  const { ready, reasons, degraded } = status.readiness;
  const notes = [...reasons, ...degraded].map((note) => `<li>${escapeHtml(note)}</li>`).join('');
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta http-equiv="refresh" content="10">
<title>sidekerb ${ready ? 'ready' : 'not ready'}</title>
<style>${STYLE}</style>
</head>
<body>
<h1>sidekerb ${escapeHtml(status.version)} <b class="${ready ? 'good' : 'bad'}">${ready ? 'ready' : 'not ready'}</b></h1>
<p>Up ${formatSpan(status.uptimeSeconds)} since ${escapeHtml(status.startedAt)}.</p>
${notes === '' ? '' : `<ul class="bad">${notes}</ul>`}
<h2>Listeners</h2>
${table(['name', 'mode', 'addresses', 'connections', 'requests', 'errors'], listenerRows(status))}
<h2>Upstreams</h2>
${table(['name', 'origin', 'hit rate', 'leases', 'connections', 'waiting', 'partitions', 'logins ok / failed'], upstreamRows(status))}
<h2>Pools</h2>
${table(['upstream', 'partition', 'principal', 'connections', 'waiting', 'oldest', 'state', 'last failure'], poolRows(pools))}
<h2>Caches</h2>
${table(['cache', 'issuer', 'hit rate', 'requests', 'entries'], cacheRows(status))}
<h2>Lockout guard</h2>
${table(['principal', 'upstream', 'state'], guardRows(status))}
<p><a href="/metrics">metrics</a> · <a href="/api/status">status</a> · <a href="/api/pools">pools</a> · <a href="/api/config">configuration</a></p>
</body>
</html>
`;
}

/** A cell's text, with a word of `STYLE` where it should stand out. */
type Cell = string | number | { readonly text: string; readonly tone: 'good' | 'bad' };

function listenerRows(status: StatusData): Cell[][] {
  return status.listeners.map((listener) => [
    listener.name,
    listener.mode,
    listener.addresses.join(', '),
    listener.connections,
    listener.requests,
    listener.errors,
  ]);
}

function upstreamRows(status: StatusData): Cell[][] {
  return status.upstreams.map((upstream) => [
    upstream.name,
    upstream.origin,
    formatHitRate(upstream.leases),
    formatLeases(upstream.leases),
    formatConnections(upstream.connections),
    upstream.waiters,
    upstream.partitions,
    `${upstream.logins.ok} / ${upstream.logins.failed}`,
  ]);
}

function poolRows(pools: readonly UpstreamPools[]): Cell[][] {
  return pools.flatMap(({ upstream, partitions }) =>
    partitions.map((partition): Cell[] => [
      upstream,
      partition.id,
      partition.principal ?? 'none',
      formatConnections(partition.connections),
      partition.waiters,
      partition.oldestMs === undefined ? '' : formatSpan(partition.oldestMs / 1000),
      partition.retired ? 'draining' : 'open',
      partition.lastFailure ?? '',
    ]),
  );
}

function cacheRows(status: StatusData): Cell[][] {
  return status.caches.map(({ cache, issuer, requests, hits, entries }) => [
    cache,
    issuer ?? '',
    formatRate(hits, requests),
    requests,
    entries,
  ]);
}

function guardRows(status: StatusData): Cell[][] {
  return status.guards.map(({ principal, upstream, state }) => [
    principal,
    upstream,
    { text: state, tone: state === 'closed' ? 'good' : 'bad' },
  ]);
}

function table(heads: readonly string[], rows: readonly (readonly Cell[])[]): string {
  if (rows.length === 0) return '<p>None.</p>';
  const head = heads.map((text) => `<th>${escapeHtml(text)}</th>`).join('');
  const body = rows.map((row) => `<tr>${row.map(cell).join('')}</tr>`).join('\n');
  return `<table>\n<tr>${head}</tr>\n${body}\n</table>`;
}

function cell(value: Cell): string {
  if (typeof value === 'number') return `<td class="figure">${value}</td>`;
  if (typeof value === 'string') return `<td>${escapeHtml(value)}</td>`;
  return `<td class="${value.tone}">${escapeHtml(value.text)}</td>`;
}

function formatHitRate(leases: LeaseCounts): string {
  const all = leases.hit + leases.new + leases.waited + leases.rejected + leases.timeout;
  return formatRate(leases.hit, all);
}

const formatRate = (hits: number, all: number): string =>
  all === 0 ? 'no request yet' : `${((100 * hits) / all).toFixed(1)} %`;

function formatLeases(leases: LeaseCounts): string {
  const parts = [`${leases.hit} hit`, `${leases.new} new`, `${leases.waited} waited`];
  if (leases.rejected > 0) parts.push(`${leases.rejected} rejected`);
  if (leases.timeout > 0) parts.push(`${leases.timeout} timed out`);
  return parts.join(', ');
}

function formatConnections(counts: ConnectionCounts): string {
  const parts = [`${counts.active} active`, `${counts.idle} idle`];
  if (counts.connecting > 0) parts.push(`${counts.connecting} connecting`);
  if (counts.handshaking > 0) parts.push(`${counts.handshaking} logging in`);
  return parts.join(', ');
}

function formatSpan(seconds: number): string {
  const whole = Math.floor(seconds);
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${whole % 60} s`;
  return `${Math.floor(whole / 3600)} h ${Math.floor((whole % 3600) / 60)} min`;
}

const STYLE = `
:root { color-scheme: light dark; }
body { font: 14px/1.5 system-ui, sans-serif; margin: 2rem; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.1rem; margin-top: 1.5rem; }
table { border-collapse: collapse; }
th, td { text-align: left; padding: .2rem .8rem; border-bottom: 1px solid #8884; }
.figure { text-align: right; font-variant-numeric: tabular-nums; }
.good { color: light-dark(#17692f, #6fd08c); } .bad { color: light-dark(#a01818, #ff8f8f); }
`;
