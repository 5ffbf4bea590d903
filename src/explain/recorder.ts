/** Keeps what happens on the way of one request, in order. */
import { isIPv6 } from 'node:net';
import { TLSSocket } from 'node:tls';
import type { Mechanism } from '../auth/scheme-choice.ts';
import { kerberosErrorIn } from '../auth/spnego/kerberos-error.ts';
import type { Clock } from '../clock.ts';
import { errorCode, ProxyError } from '../errors.ts';
import type { AnsweredLeg, ChosenLogin, LegObserver, SentLeg } from '../establish/leg-observer.ts';
import type { Challenge } from '../http/challenge.ts';
import type { UpstreamConnection } from '../upstream/connection.ts';
import type { ConnectionPath } from '../upstream/path.ts';
import type { UpstreamTarget } from '../upstream/target.ts';
import type { RequestStep, Step, TlsFacts, WayStep } from './report.ts';

export class LegRecorder implements LegObserver {
  readonly steps: Step[] = [];
  readonly #clock: Clock;
  #path: ConnectionPath | undefined;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** What follows goes this way. */
  begin(path: ConnectionPath, step: Omit<WayStep, 'kind'>): void {
    this.#path = path;
    this.steps.push({ kind: 'way', ...step });
  }

  connected(target: UpstreamTarget, connection: UpstreamConnection): void {
    const { socket } = connection.transport;
    const isParent = this.#path?.parent?.target === target;
    // What is dialled inside a tunnel is known to the parent alone.
    const isInside = !isParent && this.#path?.parent !== undefined;
    const address = socket?.remoteAddress;
    const port = socket?.remotePort;
    this.steps.push({
      kind: 'connected',
      hop: isParent ? 'parent' : 'origin',
      upstream: target.name,
      address: address === undefined || isInside ? null : formatAddress(address, port),
      tls: socket instanceof TLSSocket ? tlsFacts(socket, connection) : null,
    });
  }

  chose({ mechanism, spn, binding, bindingRequired, ...login }: ChosenLogin): void {
    this.steps.push({
      kind: 'login',
      ...login,
      mechanism,
      spn: mechanism === 'basic' ? null : spn,
      channelBinding: binding,
      channelBindingRequired: bindingRequired,
    });
  }

  failedHere(mechanism: Mechanism, error: unknown): void {
    const message = error instanceof Error ? error.message : String(error);
    const native = nativeText(error);
    this.steps.push({
      kind: 'mechanism-failed',
      mechanism,
      code: errorCode(error),
      message,
      native,
    });
  }

  sent({ credentials, ...leg }: SentLeg): void {
    this.steps.push({
      kind: 'request',
      ...leg,
      credentials: credentials.map((one) => ({ ...one, bytes: one.bytes ?? null })),
      status: null,
      offers: [],
      persistentAuth: null,
      kerberosError: null,
      clockOffset: null,
    });
  }

  answered({ status, challenges, persistentAuth, date }: AnsweredLeg): void {
    const at = this.steps.findLastIndex(({ kind }) => kind === 'request');
    const request = this.steps[at];
    if (request?.kind !== 'request') return;
    const answered: RequestStep = {
      ...request,
      status,
      offers: challenges.map(({ scheme, token68 }) => ({
        scheme,
        bytes: token68 === undefined ? null : Buffer.from(token68, 'base64').length,
      })),
      persistentAuth: persistentAuth.length === 0 ? null : persistentAuth.join(', '),
      kerberosError: kerberosErrorOf(challenges),
      clockOffset: this.#offset(date),
    };
    this.steps[at] = answered;
  }

  #offset(date: string | undefined): number | null {
    const server = date === undefined ? Number.NaN : Date.parse(date);
    return Number.isNaN(server) ? null : Math.round((server - this.#clock.wall()) / 1000);
  }
}

function kerberosErrorOf(challenges: readonly Challenge[]): number | null {
  for (const { scheme, token68 } of challenges) {
    if (scheme !== 'negotiate' || token68 === undefined) continue;
    const code = kerberosErrorIn(Buffer.from(token68, 'base64'));
    if (code !== undefined) return code;
  }
  return null;
}

/** What the system or a library said; null where an error is the daemon's own. */
export function nativeText(error: unknown): string | null {
  const { cause } = error instanceof Error ? error : {};
  return cause instanceof Error && !(cause instanceof ProxyError) ? cause.message : null;
}

const formatAddress = (address: string, port: number | undefined): string =>
  `${isIPv6(address) ? `[${address}]` : address}:${port}`;

function tlsFacts(socket: TLSSocket, { binding }: UpstreamConnection): TlsFacts {
  const certificate = socket.getPeerX509Certificate();
  const { servername } = socket;
  return {
    protocol: socket.getProtocol() ?? 'unknown',
    cipher: socket.getCipher().name,
    servername: typeof servername === 'string' && servername !== '' ? servername : null,
    subject: oneLine(certificate?.subject),
    issuer: oneLine(certificate?.issuer),
    validTo: certificate?.validTo ?? null,
    bindable: binding !== undefined,
  };
}

const oneLine = (name: string | undefined): string | null => name?.replaceAll('\n', ', ') ?? null;
