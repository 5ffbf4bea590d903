/**
 * One JSON line per request, cheaply: lines are joined in memory and handed on once per turn of the
 * event loop, or at 16 KiB.
 *
 * Decides the fields of an access line and what may not stand in one: a target loses its query and
 * userinfo here, because both carry tokens (G11). Writing to a file descriptor is `pino-log.ts`.
 */

/** Facts of one ended request. Read during the call only, so the caller may reuse the object. */
export interface AccessEntry {
  readonly listener: string;
  /** Address of the caller's connection, without port. */
  readonly client: string;
  readonly method: string;
  /** As received. The line holds it without query, fragment and userinfo. */
  readonly target: string;
  /** 0 when the caller went away before an answer. */
  readonly status: number;
  readonly bytesIn: number;
  readonly bytesOut: number;
  readonly durationMs: number;
  readonly upstream?: string | undefined;
  /** How the connection was found; a word of the lease metric. */
  readonly lease?: string | undefined;
  /** Code of the error that ended the request. */
  readonly reason?: string | undefined;
  /** Configured name of the principal, where `log.principals` allows it. */
  readonly principal?: string | undefined;
}

export interface AccessLog {
  /** False when lines go nowhere: the caller need not gather fields. */
  readonly enabled: boolean;
  write(entry: AccessEntry): void;
  /** Hands on what is joined so far. */
  flush(): void;
}

/** Takes finished lines, each ending in a line feed. */
export interface LineSink {
  write(lines: string): unknown;
}

/** An access log that keeps nothing. */
export const noAccessLog: AccessLog = Object.freeze({
  enabled: false,
  write: () => undefined,
  flush: () => undefined,
});

const FLUSH_LENGTH = 16 * 1024;

/** An access log that writes to `sink`; `wall` gives milliseconds since 1970. */
export function createAccessLog(deps: {
  readonly sink: LineSink;
  readonly wall: () => number;
}): AccessLog {
  return new BatchedAccessLog(deps);
}

class BatchedAccessLog implements AccessLog {
  readonly enabled = true;
  readonly #sink: LineSink;
  readonly #wall: () => number;
  readonly #onTurn = (): void => {
    this.#scheduled = false;
    this.flush();
  };
  #scheduled = false;
  #lines = '';
  #stampAt = Number.NaN;
  #stamp = '';

  constructor(deps: { readonly sink: LineSink; readonly wall: () => number }) {
    this.#sink = deps.sink;
    this.#wall = deps.wall;
  }

  write(entry: AccessEntry): void {
    let line = `{"level":"info","time":"${this.#time()}","msg":"request","listener":${quote(entry.listener)}`;
    line += `,"client":${quote(entry.client)},"method":${quote(entry.method)}`;
    line += `,"path":${quote(publicTarget(entry.target))},"status":${figure(entry.status)}`;
    line += `,"bytesIn":${figure(entry.bytesIn)},"bytesOut":${figure(entry.bytesOut)}`;
    line += `,"durationMs":${figure(Math.round(entry.durationMs * 1000) / 1000)}`;
    if (entry.upstream !== undefined) line += `,"upstream":${quote(entry.upstream)}`;
    if (entry.lease !== undefined) line += `,"lease":${quote(entry.lease)}`;
    if (entry.reason !== undefined) line += `,"reason":${quote(entry.reason)}`;
    if (entry.principal !== undefined) line += `,"principal":${quote(entry.principal)}`;
    this.#lines += `${line}}\n`;
    if (this.#lines.length >= FLUSH_LENGTH) {
      this.flush();
    } else if (!this.#scheduled) {
      this.#scheduled = true;
      setImmediate(this.#onTurn);
    }
  }

  flush(): void {
    if (this.#lines === '') return;
    const lines = this.#lines;
    this.#lines = '';
    this.#sink.write(lines);
  }

  // Many requests end in the same millisecond; formatting a date costs more than the rest of a line.
  #time(): string {
    const at = Math.floor(this.#wall());
    if (at !== this.#stampAt) {
      this.#stampAt = at;
      this.#stamp = new Date(at).toISOString();
    }
    return this.#stamp;
  }
}

/** The target without query, fragment and userinfo. */
function publicTarget(target: string): string {
  const end = target.search(/[?#]/);
  const path = end < 0 ? target : target.slice(0, end);
  if (path.startsWith('/')) return path;
  const start = path.indexOf('://') < 0 ? 0 : path.indexOf('://') + 3;
  const slash = path.indexOf('/', start);
  const authority = slash < 0 ? path.slice(start) : path.slice(start, slash);
  const at = authority.lastIndexOf('@');
  return at < 0 ? path : path.slice(0, start) + path.slice(start + at + 1);
}

// JSON has no NaN and no Infinity.
function figure(value: number): string {
  return Number.isFinite(value) ? String(value) : 'null';
}

const PLAIN = /^[\x20\x21\x23-\x5b\x5d-\x7e]*$/;
const CONTROLS = /[\u007f-\u009f\u2028\u2029]/g;

// JSON leaves DEL and the C1 controls as they are; a terminal obeys them (G11).
function quote(text: string): string {
  if (PLAIN.test(text)) return `"${text}"`;
  return JSON.stringify(text).replace(
    CONTROLS,
    (control) => `\\u${control.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}
