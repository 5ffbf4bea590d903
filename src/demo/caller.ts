/** A program that cannot log in: plain HTTP on one keep-alive connection, as the demo's callers do it. */

import { Agent, request } from 'node:http';

const ANSWER_WITHIN_MS = 15_000;

export interface CallerAnswer {
  readonly status: number;
  readonly body: string;
}

/** One caller with a connection of its own; whoever makes it closes it. */
export class Caller {
  readonly name: string;
  readonly #port: number;
  readonly #agent = new Agent({ keepAlive: true, maxSockets: 1 });

  constructor(name: string, port: number) {
    this.name = name;
    this.#port = port;
  }

  /** Sends one request. Rejects when there is no whole answer in 15 s, or when `signal` aborts. */
  async ask(method: string, path: string, signal: AbortSignal): Promise<CallerAnswer> {
    const answered = Promise.withResolvers<CallerAnswer>();
    const outgoing = request({
      host: '127.0.0.1',
      port: this.#port,
      method,
      path,
      agent: this.#agent,
      signal: AbortSignal.any([signal, AbortSignal.timeout(ANSWER_WITHIN_MS)]),
    });
    outgoing.on('error', answered.reject);
    outgoing.on('response', (response) => {
      const pieces: Buffer[] = [];
      response.on('data', (piece: Buffer) => pieces.push(piece));
      response.on('error', answered.reject);
      response.on('end', () => {
        answered.resolve({
          status: response.statusCode ?? 0,
          body: Buffer.concat(pieces).toString(),
        });
      });
    });
    outgoing.end(method === 'POST' ? 'a body' : undefined);
    return answered.promise;
  }

  /** Drops the connection. */
  close(): void {
    this.#agent.destroy();
  }
}
