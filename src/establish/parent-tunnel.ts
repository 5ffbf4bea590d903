/**
 * Opens a tunnel to an origin by CONNECT at a parent proxy (RFC 9110 9.3.6), and TLS inside where the
 * origin speaks it.
 *
 * The login at the parent is made in the legs of the CONNECT and ends with it: no credential of the
 * parent's goes further (R25), and no 407 that comes later is the parent's (R26). Anything but 2xx
 * refuses the tunnel; the connection is then closed and never lent (R23).
 */
import { Deadline } from '../deadlines.ts';
import { ProxyError } from '../errors.ts';
import type { UpstreamConnection } from '../upstream/connection.ts';
import { type DialDeps, secure } from '../upstream/dial.ts';
import { connectAuthority, type UpstreamTarget } from '../upstream/target.ts';
import { abortedLogin } from './connection-login.ts';
import { connectLeg, type LoggedIn } from './hop-login.ts';
import type { LegObserver } from './leg-observer.ts';
import { type ExchangeAnswer, LoginExchange, PARENT_HOP } from './login-exchange.ts';

export interface ParentTunnelDeps extends DialDeps {
  /** Absent: nobody looks on. */
  readonly legs?: LegObserver | undefined;
}

export interface ParentTunnelFacts {
  readonly origin: UpstreamTarget;
  readonly parent: UpstreamTarget;
  /** Key of the partition, for its TLS session. */
  readonly partition: string;
  readonly signal: AbortSignal;
  /** Makes a connection to the parent. */
  readonly connect: () => Promise<UpstreamConnection>;
  /** Makes one with a login, asking for a tunnel to `authority`; undefined: as nobody. */
  readonly logIn: ((authority: string) => Promise<LoggedIn>) | undefined;
  /** No login is made. */
  readonly refuseLogin: () => void;
}

export class ParentTunnel {
  readonly #deps: ParentTunnelDeps;
  readonly #facts: ParentTunnelFacts;

  constructor(deps: ParentTunnelDeps, facts: ParentTunnelFacts) {
    this.#deps = deps;
    this.#facts = facts;
  }

  /** Throws `connect-refused-by-parent`, `parent-auth`, and what dialling and the login throw. */
  async open(): Promise<UpstreamConnection> {
    const { origin, parent, signal, refuseLogin } = this.#facts;
    let made: LoggedIn;
    try {
      made = await this.#ask();
    } finally {
      refuseLogin();
    }
    const { connection, answer } = made;
    if (answer === undefined || !isGranted(answer) || signal.aborted) {
      connection.destroy();
      throw signal.aborted ? abortedLogin(origin) : refused(parent, origin, answer?.status);
    }
    connection.parent = undefined;
    if (origin.tls === undefined) {
      connection.early = answer.early;
      return connection;
    }
    if (answer.early !== undefined) {
      connection.destroy();
      throw spokeFirst(origin);
    }
    const { partition } = this.#facts;
    const secured = await secure(this.#deps, connection, origin, { partition, signal });
    this.#deps.legs?.connected(origin, secured);
    return secured;
  }

  async #ask(): Promise<LoggedIn> {
    const { parent, origin, logIn } = this.#facts;
    const authority = connectAuthority(origin);
    if (logIn !== undefined && parent.learned.challenges !== 'no') {
      const made = await logIn(authority);
      // Without an answer the parent let a probe of the guard in, and nobody has asked for the tunnel.
      return made.answer === undefined ? this.#askPlain(authority, made.connection) : made;
    }
    const plain = await this.#askPlain(authority, await this.#facts.connect());
    if (plain.answer?.asks !== true) return plain;
    plain.connection.destroy();
    if (logIn === undefined) throw refused(parent, origin, PARENT_HOP.asksWith);
    parent.learned.challenges = 'yes';
    return logIn(authority);
  }

  async #askPlain(authority: string, connection: UpstreamConnection): Promise<LoggedIn> {
    const { parent, signal } = this.#facts;
    const exchange = new LoginExchange(
      connection,
      connectLeg(authority),
      PARENT_HOP,
      this.#deps.legs,
    );
    const deadline = new Deadline(() => exchange.fail(late(parent)));
    const abort = (): void => exchange.fail(abortedLogin(parent));
    signal.addEventListener('abort', abort, { once: true });
    this.#deps.deadlines.arm(deadline, parent.answerMs);
    try {
      if (signal.aborted) abort();
      return { connection, answer: await exchange.discover() };
    } catch (error) {
      connection.destroy();
      throw error;
    } finally {
      this.#deps.deadlines.disarm(deadline);
      signal.removeEventListener('abort', abort);
    }
  }
}

const isGranted = ({ status }: ExchangeAnswer): boolean => status >= 200 && status < 300;

function refused(
  parent: UpstreamTarget,
  origin: UpstreamTarget,
  receivedStatus: number | undefined,
): ProxyError {
  const asks = receivedStatus === PARENT_HOP.asksWith;
  const what = asks
    ? 'asks for a login that is not configured or not offered here'
    : `refused a tunnel to ${connectAuthority(origin)} with ${receivedStatus}`;
  const facts = { side: 'upstream', stage: 'tunnel', receivedStatus } as const;
  const code = asks ? 'parent-auth' : 'connect-refused-by-parent';
  return new ProxyError(code, `${parent.name}: ${what}`, facts);
}

const late = (parent: UpstreamTarget): ProxyError =>
  new ProxyError('connect-timeout', `${parent.name}: no answer within ${parent.answerMs} ms`, {
    side: 'upstream',
    stage: 'tunnel',
  });

const spokeFirst = (origin: UpstreamTarget): ProxyError =>
  new ProxyError('tls-failed', `${origin.name} sent bytes before TLS began`, {
    side: 'upstream',
    stage: 'tunnel',
  });
