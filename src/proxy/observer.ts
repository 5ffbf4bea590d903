/**
 * Counts and logs what happened on the connections of one listener. Nothing is decided here.
 */
import type { ProxyError } from '../errors.ts';
import type { AccessLog } from '../log/access-log.ts';
import type { Log } from '../log/log.ts';
import type { Counter } from '../metrics/instruments.ts';
import { NO_UPSTREAM } from '../metrics/label-words.ts';
import type { Metrics } from '../metrics/metrics.ts';
import type { ExchangeRecord } from '../relay/caller.ts';
import type { Downstream, DownstreamObserver } from '../relay/downstream.ts';

export interface ObserverDeps {
  readonly metrics: Metrics;
  readonly log: Log;
  readonly access: AccessLog;
  readonly listener: string;
  /** Called when a connection is gone. */
  readonly gone: (connection: Downstream) => void;
}

const hundreds = (status: number): number => Math.min(5, Math.floor(status / 100));

export class ListenerObserver implements DownstreamObserver {
  readonly #deps: ObserverDeps;
  readonly #bytesIn: Counter;
  readonly #bytesOut: Counter;
  readonly #local: readonly Counter[];

  constructor(deps: ObserverDeps) {
    const { metrics, listener } = deps;
    this.#deps = deps;
    this.#bytesIn = metrics.bytes.child(listener, 'in');
    this.#bytesOut = metrics.bytes.child(listener, 'out');
    const of = (word: '1xx' | '2xx' | '3xx' | '4xx' | '5xx' | 'none'): Counter =>
      metrics.requests.child(listener, NO_UPSTREAM, word);
    this.#local = [of('none'), of('1xx'), of('2xx'), of('3xx'), of('4xx'), of('5xx')];
  }

  finished(connection: Downstream, exchange: ExchangeRecord): void {
    const { metrics, access, listener } = this.#deps;
    const { meters, target } = exchange.plan;
    const seconds = (exchange.endedAt - exchange.startedAt) / 1000;
    meters.classes[hundreds(exchange.status)]?.add();
    meters.duration.observe(seconds);
    if (exchange.errorCode !== undefined) metrics.errors.child(listener, exchange.errorCode).add();
    const counted = this.#countBytes(connection);
    if (!access.enabled) return;
    access.write({
      listener,
      client: connection.remoteAddress,
      method: connection.loggedMethod,
      target: connection.loggedTarget,
      status: exchange.status,
      bytesIn: counted.read,
      bytesOut: counted.written,
      durationMs: seconds * 1000,
      upstream: target.name,
      lease: exchange.leaseResult,
      reason: exchange.errorCode,
      principal: exchange.plan.loggedPrincipal,
    });
  }

  answeredLocally(connection: Downstream, status: number, error: ProxyError | undefined): void {
    const { metrics, access, listener } = this.#deps;
    this.#local[hundreds(status)]?.add();
    if (error !== undefined) metrics.errors.child(listener, error.code).add();
    const counted = this.#countBytes(connection);
    if (!access.enabled) return;
    access.write({
      listener,
      client: connection.remoteAddress,
      method: connection.loggedMethod,
      target: connection.loggedTarget,
      status,
      bytesIn: counted.read,
      bytesOut: counted.written,
      durationMs: 0,
      reason: error?.code,
    });
  }

  tunnelOpened(): void {
    this.#deps.metrics.tunnels.child(this.#deps.listener).add(1);
  }

  tunnelClosed(): void {
    this.#deps.metrics.tunnels.child(this.#deps.listener).add(-1);
  }

  closed(connection: Downstream): void {
    this.#countBytes(connection);
    this.#deps.gone(connection);
  }

  /** Adds what came and went since the last call; answers those two numbers. */
  #countBytes(connection: Downstream): { readonly read: number; readonly written: number } {
    const { transport } = connection;
    const read = transport.bytesRead - connection.countedIn;
    const written = transport.bytesWritten - connection.countedOut;
    connection.countedIn = transport.bytesRead;
    connection.countedOut = transport.bytesWritten;
    this.#bytesIn.add(read);
    this.#bytesOut.add(written);
    return { read, written };
  }
}
