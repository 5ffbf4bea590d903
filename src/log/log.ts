/**
 * What the daemon needs of a log. Components take this interface, never a logger package;
 * `pino-log.ts` is the one implementation that writes.
 */

/** Facts of a line: plain values only, never a secret, a token or a header value. */
export type LogFields = Readonly<Record<string, string | number | boolean | undefined>>;

export interface Log {
  trace(fields: LogFields, message: string): void;
  debug(fields: LogFields, message: string): void;
  info(fields: LogFields, message: string): void;
  warn(fields: LogFields, message: string): void;
  error(fields: LogFields, message: string): void;
}

const ignore = (): void => undefined;

/** A log that keeps nothing. */
export const noLog: Log = Object.freeze({
  trace: ignore,
  debug: ignore,
  info: ignore,
  warn: ignore,
  error: ignore,
});
