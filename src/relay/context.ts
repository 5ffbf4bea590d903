/**
 * What all connections of a process share in the relay: buffers, parsers, the pool, time.
 *
 * The shared parsers and the scratch buffer hold nothing between two events. A parser that met an
 * incomplete head is taken by its connection (`takeRequestHead`), which gives it back later.
 */
import type { Clock } from '../clock.ts';
import type { DeadlineWheel } from '../deadlines.ts';
import type { ProxyError } from '../errors.ts';
import type { OwnChallenge } from '../http/own-challenge.ts';
import type { Log } from '../log/log.ts';
import type { Pool } from '../pool/pool.ts';
import { BufferStore } from '../transport/buffer-store.ts';
import { HEADROOM } from '../transport/transport.ts';
import type { UpstreamConnection } from '../upstream/connection.ts';
import type { OpeningRequest } from '../upstream/opening-request.ts';
import type { ViaLines } from './request-head-writer.ts';
import type { HeadLimits, RequestFields } from '../wire/request-head.ts';
import { RequestHead } from '../wire/request-head.ts';
import { ResponseHead } from '../wire/response-head.ts';

/** Large enough for a head at its limit and a small body beside it. */
const SCRATCH = 192 * 1024;

const REPLAY_BYTES = 64 * 1024;
const REPLAY_KEPT = 64;

/** One read of a tunnel in full flow; more of it saves little (measured: 256 KiB costs a third more). */
const BULK_BYTES = 1024 * 1024;
/** Both directions of so many tunnels, together; others make do with the usual large buffers. */
const BULK_KEPT = 32;

export interface RelayDeps {
  readonly clock: Clock;
  readonly deadlines: DeadlineWheel;
  readonly pool: Pool<UpstreamConnection, OpeningRequest>;
  readonly answers: AnswerWriter;
  readonly log: Log;
  /** `Via: 1.1 …\r\n`, with the random id of this process. */
  readonly via: ViaLines;
  /** Limits of heads that upstreams send. */
  readonly responseLimits: HeadLimits;
}

/** Writes the daemon's own answers; the relay knows no statuses of its own (I6). */
export interface AnswerWriter {
  /** The whole message for an error, and the status in it. */
  error(error: ProxyError, options: AnswerOptions): OwnAnswer;
  redirect(location: string, options: AnswerOptions): OwnAnswer;
}

export interface AnswerOptions {
  /** Accept of the request, where it was read. */
  readonly accept: string | undefined;
  readonly isHead: boolean;
  readonly close: boolean;
  /** How callers of this listener are asked for credentials, where that can help; default not at all. */
  readonly challenge?: OwnChallenge | undefined;
  /** Whole lines that belong to this request; default none. */
  readonly answerLines?: string | undefined;
}

export interface OwnAnswer {
  readonly bytes: Buffer;
  readonly status: number;
}

export class RelayContext {
  readonly clock: Clock;
  readonly deadlines: DeadlineWheel;
  readonly pool: Pool<UpstreamConnection, OpeningRequest>;
  readonly answers: AnswerWriter;
  readonly log: Log;
  readonly via: RelayDeps['via'];
  readonly responseLimits: HeadLimits;
  /** For copies of request bodies; of the size that `replay.maxBytes` has by default. */
  readonly replayBuffers = new BufferStore(REPLAY_BYTES, REPLAY_KEPT);
  /** Read buffers of tunnels in full flow. */
  readonly bulkBuffers = new BufferStore(HEADROOM + BULK_BYTES, BULK_KEPT);
  scratch: Buffer = Buffer.allocUnsafeSlow(SCRATCH);
  responseHead: ResponseHead = new ResponseHead();

  constructor(deps: RelayDeps) {
    this.clock = deps.clock;
    this.deadlines = deps.deadlines;
    this.pool = deps.pool;
    this.answers = deps.answers;
    this.log = deps.log;
    this.via = deps.via;
    this.responseLimits = deps.responseLimits;
  }

  /** The scratch buffer belongs to a write that has not ended: go on with another one. */
  giveScratchAway(): void {
    this.scratch = Buffer.allocUnsafeSlow(SCRATCH);
  }

  /** The shared response parser keeps an incomplete head of the caller's connection from now on. */
  takeResponseHead(): ResponseHead {
    const taken = this.responseHead;
    this.responseHead = new ResponseHead();
    return taken;
  }
}

/** The request parser that the connections of one listener share. */
export class SharedRequestHead {
  readonly #fields: RequestFields;
  current: RequestHead;

  constructor(fields: RequestFields) {
    this.#fields = fields;
    this.current = new RequestHead(fields);
  }

  /** As `takeResponseHead`. */
  take(): RequestHead {
    const taken = this.current;
    this.current = new RequestHead(this.#fields);
    return taken;
  }
}
