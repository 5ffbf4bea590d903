/**
 * One socket of the scripted upstream: reads a request, asks the login for its verdict, answers by
 * the switches, and writes down what happened. Opening and closing of ports is the server's.
 */

import { createHash } from 'node:crypto';
import type { Duplex } from 'node:stream';
import {
  ByteSource,
  CutShort,
  fieldValue,
  fieldValues,
  HttpFault,
  readBody,
  readRequestHead,
  requestFraming,
  type Framing,
  type RequestHead,
} from './strict-http.ts';
import {
  describeRequest,
  scriptStatus,
  writeAnswer,
  writeBytes,
  type AnswerSocket,
} from './upstream-answers.ts';
import {
  MARKER_FIELD,
  PROXY_MARKER_FIELD,
  type RequestRecord,
  type SocketRecord,
} from './upstream-journal.ts';
import {
  challengeFields,
  ConnectionLogin,
  loginMessage,
  type LoginVerdict,
  type Role,
} from './upstream-login.ts';
import {
  ACCOUNTS,
  type Afterwards,
  type ChallengeBody,
  type ResponseScript,
  type ScriptedUpstreamOptions,
  type UpstreamRequest,
} from './upstream-options.ts';

/** One socket: reads requests one after the other and answers them by the switches. */
export class UpstreamConnection {
  readonly #options: ScriptedUpstreamOptions;
  readonly #record: SocketRecord;
  readonly #login: ConnectionLogin;
  readonly #socket: AnswerSocket;
  #answers = 0;

  constructor(deps: {
    options: ScriptedUpstreamOptions;
    record: SocketRecord;
    tokens: string[];
    stream: Duplex;
    /** Channel binding data of this connection. */
    bindings: Uint8Array | undefined;
  }) {
    const { options, record, tokens, stream } = deps;
    this.#options = options;
    this.#record = record;
    const gone = Promise.withResolvers<void>();
    stream.on('close', () => {
      record.open = false;
      gone.resolve();
    });
    const source = new ByteSource(stream);
    this.#socket = {
      stream,
      source,
      gone: gone.promise,
      splitEveryByte: options.splitEveryByte === true,
    };
    const settings = {
      accounts: options.accounts ?? ACCOUNTS,
      ...(options.challenge === undefined ? {} : { challenge: options.challenge }),
      ...(options.requireMic === undefined ? {} : { requireMic: options.requireMic }),
      bindings: deps.bindings,
      channelBinding: options.tls?.channelBinding ?? 'off',
    };
    this.#login = new ConnectionLogin({ options, settings, record, tokens });
  }

  /** Serves until somebody ends the connection; says how this side ends. */
  async run(): Promise<Afterwards> {
    try {
      for (;;) {
        const head = await readRequestHead(this.#socket.source);
        if (head === undefined) return 'fin';
        const after = await this.#exchange(head);
        this.#answers += 1;
        if (after !== 'keep') return after;
        const { unsolicited, closeAfter } = this.#options.idle ?? {};
        if (unsolicited?.after === this.#answers) await writeBytes(this.#socket, unsolicited.bytes);
        if (closeAfter === this.#answers) return 'fin';
      }
    } catch (error) {
      if (error instanceof CutShort) return 'fin';
      if (!(error instanceof HttpFault)) throw error;
      this.#record.faults.push(error.message);
      await writeBytes(this.#socket, 'HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n');
      return 'fin';
    } finally {
      this.#record.bytesIn = this.#socket.source.bytesIn;
    }
  }

  /** Sends FIN and ignores what still comes, until the peer ends too. */
  async end(): Promise<void> {
    this.#socket.stream.end();
    while ((await this.#socket.source.some(65536)) !== undefined) continue;
    this.#record.bytesIn = this.#socket.source.bytesIn;
  }

  async #exchange(head: RequestHead): Promise<Afterwards> {
    const message = loginMessage(head.fields, this.#role);
    const record = newRequest(head, message.kind, this.#role);
    this.#record.requests.push(record);
    const framing = requestFraming(head);
    const open = this.#options.open?.(head) === true;
    const verdict = this.#login.judge(message, open);
    if (message.kind === 'type1' || message.kind === 'type3') {
      await this.#options.login?.beforeAnswer?.(message.kind, this.#record.id);
    }
    if (verdict.kind === 'cut') return verdict.how;
    if (
      message.kind === 'type1' &&
      this.#options.body?.refuseOnType1 === true &&
      hasBody(framing)
    ) {
      return this.#answer(record, { status: 400, after: 'fin' });
    }
    if (verdict.kind !== 'serve' && this.#options.body?.earlyChallenge === true) {
      const after = await this.#sendChallenge(record, verdict);
      return after === 'keep' ? this.#afterEarly(head, record, framing) : after;
    }
    const early = this.#options.body?.early?.(
      this.#request(head, record, Buffer.alloc(0), undefined),
    );
    if (early !== undefined) {
      await this.#answer(record, early);
      return this.#afterEarly(head, record, framing);
    }
    const expected = await this.#expectation(head, verdict);
    if (expected === 'refused') return this.#answer(record, { status: 417, after: 'fin' });
    if (expected === 'unread') {
      // RFC 9110 10.1.1: a final answer in place of 100; the body may or may not follow, so the
      // connection cannot be used again.
      return this.#answer(record, { ...this.#challenge(verdict), after: 'fin' });
    }
    const body = await this.#readBody(head, record, framing);
    const buffered = this.#socket.source.buffered;
    record.pipelined = buffered > 0;
    return this.#respond(head, record, verdict, body);
  }

  async #respond(
    head: RequestHead,
    record: RequestRecord,
    verdict: LoginVerdict,
    body: Buffer,
  ): Promise<Afterwards> {
    if (verdict.kind !== 'serve') return this.#sendChallenge(record, verdict);
    record.user = verdict.user;
    const request = this.#request(head, record, body, verdict.user);
    const denial = verdict.user === undefined ? undefined : this.#options.deny?.(request);
    const script =
      denial === undefined
        ? await (this.#options.handler ?? describeRequest)(request)
        : this.#denied(denial);
    const closing = 'close' in verdict && !('raw' in script) && !('run' in script);
    const asked = fieldValues(head.fields, 'connection').join(',').toLowerCase();
    const last = closing || asked.includes('close') || head.version === '1.0';
    const after = await this.#answer(record, last ? { ...script, after: 'fin' } : script);
    this.#login.answered();
    return after;
  }

  #denied(denial: 'bare-401' | '401-challenge' | '403'): ResponseScript {
    if (denial === '403') return { status: 403, body: 'forbidden' };
    const status = this.#asks;
    if (denial === 'bare-401') return { status, body: 'not for you' };
    const fields = challengeFields(this.#style(), undefined, this.#role);
    return { status, fields, body: 'not for you' };
  }

  get #role(): Role {
    return this.#options.role ?? 'origin';
  }

  /** The status of challenges. */
  get #asks(): 401 | 407 {
    return this.#role === 'proxy' ? 407 : 401;
  }

  #style(): NonNullable<ScriptedUpstreamOptions['challengeText']> {
    return this.#options.challengeText ?? 'NTLM';
  }

  #challenge(verdict: LoginVerdict): Challenge {
    const token = verdict.kind === 'challenge' ? verdict.token : undefined;
    const challenges =
      this.#options.scheme === 'basic-only'
        ? challengeFields('basic-only', token, this.#role)
        : challengeFields(this.#style(), token, this.#role);
    const { challengeFields: more = [], challengeReason, challengeVersion } = this.#options;
    const fields = [...challenges, ...more];
    return {
      status: this.#asks,
      fields,
      ...(challengeReason === undefined ? {} : { reason: challengeReason }),
      ...(challengeVersion === undefined ? {} : { version: challengeVersion }),
    };
  }

  async #sendChallenge(record: RequestRecord, verdict: LoginVerdict): Promise<Afterwards> {
    const challenge = this.#challenge(verdict);
    const closing = verdict.kind === 'challenge' ? verdict.close : undefined;
    const body = this.#options.challengeBody ?? { kind: 'counted', bytes: 20 };
    if (body.kind === 'endless' && record.method !== 'HEAD') {
      return this.#answer(record, { run: () => this.#endless(challenge) }, this.#asks);
    }
    const shape = { ...challenge, ...challengeShape(body) };
    if (closing === undefined) return this.#answer(record, shape);
    return this.#answer(record, { ...shape, after: 'fin', silent: closing === 'silent' });
  }

  async #endless({ fields: lines, status }: Challenge): Promise<Afterwards> {
    const fields = lines.map(([name, value]) => `${name}: ${value}\r\n`).join('');
    const head = `HTTP/1.1 ${status} Who\r\n${fields}Transfer-Encoding: chunked\r\n\r\n`;
    await writeBytes(this.#socket, head);
    const chunk = `400\r\n${'x'.repeat(1024)}\r\n`;
    while (this.#record.open) await writeBytes(this.#socket, chunk);
    return 'reset';
  }

  async #expectation(
    head: RequestHead,
    verdict: LoginVerdict,
  ): Promise<'read' | 'refused' | 'unread'> {
    if (fieldValue(head.fields, 'expect')?.toLowerCase() !== '100-continue') return 'read';
    const policy = this.#options.body?.expect ?? 'continue';
    if (policy === 'refuse-417') return 'refused';
    if (policy === 'ignore') return 'read';
    if (policy === 'continue' && verdict.kind !== 'serve') return 'unread';
    await writeBytes(this.#socket, 'HTTP/1.1 100 Continue\r\n\r\n');
    return 'read';
  }

  /** Whoever answered before the body was read either reads it now or closes. */
  async #afterEarly(
    head: RequestHead,
    record: RequestRecord,
    framing: Framing,
  ): Promise<Afterwards> {
    if (this.#options.body?.afterEarly === 'close') return 'fin';
    await this.#readBody(head, record, framing);
    return 'keep';
  }

  async #answer(
    record: RequestRecord,
    script: ResponseScript,
    status: number = scriptStatus(script),
  ): Promise<Afterwards> {
    record.status = status;
    const request = {
      method: record.method,
      field: (name: string): string | undefined => fieldValue(record.fields, name),
    };
    return writeAnswer(this.#socket, request, script);
  }

  async #readBody(head: RequestHead, record: RequestRecord, framing: Framing): Promise<Buffer> {
    const hash = createHash('sha256');
    const kept: Buffer[] = [];
    try {
      record.trailers = await readBody(this.#socket.source, framing, async (piece) => {
        hash.update(piece);
        record.bodyLength += piece.length;
        if (record.bodyLength <= 1 << 20) kept.push(piece);
        await this.#pace(record.bodyLength, head);
      });
      record.bodyComplete = true;
    } finally {
      record.bodySha256 = hash.digest('hex');
    }
    return Buffer.concat(kept);
  }

  async #pace(received: number, head: RequestHead): Promise<void> {
    const pause = this.#options.body?.pace?.(received, head);
    if (pause !== undefined) await Promise.race([pause, this.#socket.gone]);
  }

  #request(
    head: RequestHead,
    record: RequestRecord,
    body: Buffer,
    user: string | undefined,
  ): UpstreamRequest {
    return {
      ...head,
      socketId: this.#record.id,
      nth: this.#record.requests.length,
      user,
      body,
      bodyLength: record.bodyLength,
      bodySha256: record.bodySha256,
      trailers: record.trailers,
      field: (name) => fieldValue(head.fields, name),
      gone: this.#socket.gone,
    };
  }
}

interface Challenge {
  readonly status: 401 | 407;
  readonly fields: (readonly [string, string])[];
  readonly reason?: string;
  readonly version?: '1.0';
}

function newRequest(head: RequestHead, token: RequestRecord['token'], role: Role): RequestRecord {
  const marker = role === 'proxy' ? PROXY_MARKER_FIELD : MARKER_FIELD;
  return {
    method: head.method,
    target: head.target,
    fields: head.fields,
    marker: fieldValue(head.fields, marker),
    token,
    user: undefined,
    status: 0,
    bodyLength: 0,
    bodySha256: '',
    bodyComplete: false,
    trailers: [],
    pipelined: false,
  };
}

function hasBody(framing: Framing): boolean {
  return framing.kind === 'chunked' || (framing.kind === 'counted' && framing.length > 0);
}

function challengeShape(body: ChallengeBody): {
  body: string;
  framing: 'counted' | 'chunked' | 'close' | 'none';
} {
  if (body.kind === 'none') return { body: '', framing: 'counted' };
  if (body.kind === 'endless') return { body: '', framing: 'chunked' };
  return { body: 'x'.repeat(body.bytes), framing: body.kind };
}
