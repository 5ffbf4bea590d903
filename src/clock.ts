/**
 * Time as an argument: a monotonic clock for waits and ages, a wall clock for what is written into
 * messages and logs. Nothing else in the daemon reads the time.
 */

/** Both clocks. Waits and ages are measured with `now`, which never goes back. */
export interface Clock {
  /** Milliseconds, monotonic, with a fraction; the origin has no meaning. */
  now(): number;
  /** Milliseconds since 1970; may jump. */
  wall(): number;
}

/** The clocks of the process. */
export const systemClock: Clock = Object.freeze({
  now: (): number => performance.now(),
  wall: (): number => Date.now(),
});
