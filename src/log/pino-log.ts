/**
 * Logs as JSON lines on standard output. The one importer of pino.
 *
 * Decides levels and the shape of a line. What may stand in a line is a matter of types: only plain
 * fields come in (G11, I5). How bytes leave is `line-output.ts`.
 */
import { type DestinationStream, pino, stdTimeFunctions } from 'pino';
import { type AccessLog, createAccessLog, noAccessLog } from './access-log.ts';
import { createLineOutput } from './line-output.ts';
import type { Log, LogFields } from './log.ts';

export const LOG_LEVELS = ['trace', 'debug', 'info', 'warn', 'error'] as const;
export type LogLevel = (typeof LOG_LEVELS)[number];

export interface LogSettings {
  readonly level: LogLevel;
  /** Whether requests are logged, whatever the level. */
  readonly access: 'on' | 'off';
  /** Where lines go; standard output when absent. */
  readonly fd?: number;
}

/** Both logs over one output. */
export interface Logs {
  readonly log: Log;
  readonly access: AccessLog;
  /** Writes given up because the reader of the output was too slow or gone. */
  readonly dropped: () => number;
  /** Waits until all lines are written, a second at most. Both logs still work afterwards. */
  drain(): Promise<void>;
  /** Writes all lines, blocking, and gives up at the first refusal: before `process.exit`. */
  flushNow(): void;
}

// A reader that stopped must not fill the memory (I12). A guess: some 30,000 access lines.
const MAX_WAITING = 8 * 1024 * 1024;
const DRAIN_GRACE_MS = 1000;

/** Logs that write to a file descriptor without blocking the event loop. */
export function createLogs(settings: LogSettings): Logs {
  const output = createLineOutput({ fd: settings.fd ?? 1, maxWaiting: MAX_WAITING });
  const access =
    settings.access === 'on' ? createAccessLog({ sink: output, wall: Date.now }) : noAccessLog;
  return {
    log: createPinoLog(settings.level, output),
    access,
    dropped: () => output.dropped,
    drain: () => {
      access.flush();
      return output.drain(DRAIN_GRACE_MS);
    },
    flushNow: () => {
      access.flush();
      output.flushNow();
    },
  };
}

/** A log of this level and above that writes to `sink`, one JSON line per call. */
export function createPinoLog(level: LogLevel, sink: DestinationStream): Log {
  const logger = pino(
    {
      level,
      base: null,
      timestamp: stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
    },
    sink,
  );
  // Fields are named one by one below and nothing else of pino is given out: its children and
  // serializers would let through what the type of the fields keeps out.
  return {
    trace: (fields: LogFields, message: string) => logger.trace(fields, message),
    debug: (fields: LogFields, message: string) => logger.debug(fields, message),
    info: (fields: LogFields, message: string) => logger.info(fields, message),
    warn: (fields: LogFields, message: string) => logger.warn(fields, message),
    error: (fields: LogFields, message: string) => logger.error(fields, message),
  };
}
