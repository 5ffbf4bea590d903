/**
 * Brings one connection to the point where it is logged in at one hop, or will be by the request that
 * it is opened for.
 *
 * 1. The connection is made, by whoever knows how.
 * 2. The legs without a body run, on the request's own target. Their method is the request's own when
 *    it is safe or was challenged; else HEAD, so that a hop that asks for no login executes nothing
 *    (R33, I11). At a parent proxy that is asked for a tunnel it is CONNECT.
 * 3. The last token stays with the connection as a `PendingLogin`: it goes with the real request,
 *    whose answer decides the login. Where the guard is not sure of the credential, or where
 *    another login follows, it goes in a leg of the login's own instead.
 *
 * A hop that closes between two legs is tried once more, from the first leg (R35). A failed or
 * aborted login destroys its connection (R17).
 */
import type { LoginTicket } from '../auth/guard-ticket.ts';
import { ProxyError } from '../errors.ts';
import type { UpstreamConnection } from '../upstream/connection.ts';
import type { LoginState } from '../upstream/login-state.ts';
import type { OpeningRequest } from '../upstream/opening-request.ts';
import type { Admitted, Door } from './admission.ts';
import { ConnectionLogin, type ConnectionLoginDeps, withoutRetry } from './connection-login.ts';
import type { ExchangeAnswer, Hop, LegRequest } from './login-exchange.ts';

export interface HopLoginFacts {
  readonly hop: Hop;
  readonly door: Door;
  readonly admitted: Admitted;
  readonly request: OpeningRequest;
  /** Key of the partition, for its TLS session. */
  readonly partition: string;
  readonly signal: AbortSignal;
  /** Makes a connection on which the legs can be sent; each try has one of its own. */
  readonly connect: () => Promise<UpstreamConnection>;
  /** What the login leaves behind. */
  readonly stateOf: (connection: UpstreamConnection) => LoginState;
  /** No other login follows on this connection. */
  readonly isLast: boolean;
  /** A leg was answered by the parent on the way, whose login did not last for it (R37). */
  readonly parentAsked?: () => void;
  /** The target of a CONNECT that this login is made for. */
  readonly tunnelTo: string | undefined;
}

/** A connection that came through its login. */
export interface LoggedIn {
  readonly connection: UpstreamConnection;
  /** To the last leg; undefined when there was none for this request, or the request carries it. */
  readonly answer: ExchangeAnswer | undefined;
}

export class HopLogin {
  readonly #deps: ConnectionLoginDeps;
  readonly #facts: HopLoginFacts;

  constructor(deps: ConnectionLoginDeps, facts: HopLoginFacts) {
    this.#deps = deps;
    this.#facts = facts;
  }

  /** Throws what made it fail; the tickets that it was admitted with are ended then too. */
  async run(): Promise<LoggedIn> {
    const { admitted } = this.#facts;
    try {
      return await this.#run(admitted);
    } catch (error) {
      admitted.ticket.abandoned();
      // What the other hop failed with on the way is its own.
      const isOwn = error instanceof ProxyError && error.hop === undefined;
      throw isOwn ? this.#named(error) : error;
    }
  }

  /** The error with its hop. A 407 without a scheme of ours is a parent that wants something else. */
  #named(error: ProxyError): ProxyError {
    const { hop } = this.#facts;
    if (hop.name === 'origin' || error.code !== 'no-common-scheme') {
      return error.with({ hop: hop.name });
    }
    const facts = { side: 'upstream', stage: 'handshake', hop: hop.name, cause: error } as const;
    return new ProxyError('parent-auth', error.message, facts);
  }

  async #run(admitted: Admitted): Promise<LoggedIn> {
    const { signal } = this.#facts;
    try {
      return await this.#attempt(admitted);
    } catch (error) {
      const again = error instanceof ProxyError && error.retry === 'safe' && !signal.aborted;
      if (error instanceof ProxyError && error.code === 'parent-auth') this.#facts.parentAsked?.();
      if (!again || error.stage !== 'handshake' || error.code === 'guard-open') throw error;
      return await this.#attempt(admitted);
    }
  }

  /** Connects and runs the legs; destroys the connection on every failure. */
  async #attempt(admitted: Admitted, isFirst = true): Promise<LoggedIn> {
    const { tunnelTo } = this.#facts;
    const connection = await this.#facts.connect();
    const rides = this.#rides(admitted);
    const leg = rides ? this.#ridingLeg() : this.#settlingLeg(admitted);
    const elsewhere = isTunnel(leg) ? leg.target !== tunnelTo : tunnelTo !== undefined;
    try {
      const end = await this.#login(connection, admitted, leg, rides).run();
      const { answer } = end;
      if (end.kind === 'unchallenged') {
        admitted.ticket.abandoned();
        // Whatever was let in says nothing of the request, and a tunnel to there is none for it.
        if (elsewhere) return await this.#instead(connection);
        return await this.#unchallenged(connection, leg, end.reusable, answer);
      }
      if (end.reusable && !elsewhere) return { connection, answer };
      // Refused by the parent, which is an answer to the request.
      if (tunnelTo !== undefined && !elsewhere) return { connection, answer };
    } catch (error) {
      connection.destroy();
      throw error;
    }
    connection.destroy();
    return this.#onAnother(isFirst, elsewhere);
  }

  /** The credential is good, but its connection ended with the verdict: logs in on another one, once. */
  #onAnother(isFirst: boolean, probed: boolean): Promise<LoggedIn> {
    const { door } = this.#facts;
    const again = isFirst ? door.admit() : undefined;
    if (again !== undefined && probed) return this.#attemptProbed(again);
    if (again?.kind === 'go') return this.#attemptAgain(again);
    again?.ticket.abandoned();
    const text = `${door.target.name} closes its connections after each login`;
    throw new ProxyError('handshake-failed', text, { side: 'upstream', stage: 'handshake' });
  }

  /** A probe was not asked for a login where it went; the request may still be. */
  async #instead(probed: UpstreamConnection): Promise<LoggedIn> {
    this.#deps.meters.unchallenged(this.#facts.door.target.name);
    probed.destroy();
    return { connection: await this.#facts.connect(), answer: undefined };
  }

  /** The login that follows one whose connection ended; it has a ticket of its own, and no other try. */
  async #attemptAgain(admitted: Admitted): Promise<LoggedIn> {
    try {
      return await this.#attempt(admitted, false);
    } catch (error) {
      admitted.ticket.abandoned();
      throw withoutRetry(error);
    }
  }

  /** The login that follows a probe elsewhere: a refusal is the hop's word about this request. */
  async #attemptProbed({ ticket }: Admitted): Promise<LoggedIn> {
    try {
      return await this.#attemptAgain({
        kind: 'settle',
        probeTarget: undefined,
        ticket: new ProbedTicket(ticket),
      });
    } catch (error) {
      if (!(error instanceof ProxyError) || error.code !== 'credential-rejected') throw error;
      const facts = { side: 'upstream', stage: 'handshake', cause: error } as const;
      const text = `${this.#facts.door.target.name} denies this request to the user`;
      throw new ProxyError('upstream-denied', text, facts);
    }
  }

  #login(
    connection: UpstreamConnection,
    admitted: Admitted,
    leg: LegRequest,
    rides: boolean,
  ): ConnectionLogin {
    const { hop, door, request, partition, signal, stateOf } = this.#facts;
    const { target, login, identity } = door;
    return new ConnectionLogin(this.#deps, {
      target,
      login,
      identity,
      hop,
      connection,
      state: stateOf(connection),
      leg,
      rides,
      request,
      partition,
      signal,
      requestTarget: leg.method === 'CONNECT' ? leg.target : request.upstreamTarget,
      probes: admitted.probeTarget !== undefined,
      ticket: admitted.ticket,
      admitAgain: () => door.admitToken(),
    });
  }

  /** The hop asked for no login: the request goes out plain. */
  async #unchallenged(
    connection: UpstreamConnection,
    leg: LegRequest,
    reusable: boolean,
    answer: ExchangeAnswer | undefined,
  ): Promise<LoggedIn> {
    const { door, request, connect } = this.#facts;
    const { target } = door;
    this.#deps.meters.unchallenged(target.name);
    if (target.learned.challenges === 'unknown') target.learned.challenges = 'no';
    // A tunnel, or the word on it.
    if (leg.method === 'CONNECT') return { connection, answer };
    // The leg was an empty one of the request's own: what it did, the request must not do again.
    if (leg.method !== 'HEAD' && !request.safe) {
      const text = `${target.name} took a login leg without asking for a login`;
      throw new ProxyError('handshake-failed', text, { side: 'upstream', stage: 'handshake' });
    }
    if (reusable) return { connection, answer };
    connection.destroy();
    return { connection: await connect(), answer };
  }

  /**
   * Whether the last token goes with the request. It does where the credential is not in doubt, and
   * where only the request's own method is known to be challenged: another one would prove nothing.
   */
  #rides(admitted: Admitted): boolean {
    const { isLast, tunnelTo, door } = this.#facts;
    if (!isLast || tunnelTo !== undefined) return false;
    return admitted.kind === 'go' || this.#wasChallenged || door.login.probe === 'same';
  }

  /** All legs of a login that is settled before the request: the last is judged, so none may differ. */
  #settlingLeg({ probeTarget }: Admitted): LegRequest {
    const { request, tunnelTo, hop } = this.#facts;
    if (probeTarget !== undefined) return probeLeg(probeTarget, hop, request);
    if (tunnelTo !== undefined) return connectLeg(tunnelTo);
    return headLeg(request.upstreamTarget, request.upstreamHost);
  }

  /** The method of legs without body before a request that carries the last token (config.md, `auth.probe`). */
  #ridingLeg(): LegRequest {
    const { request, door } = this.#facts;
    // An own method with `Content-Length: 0` is executed by an origin that asks for no login on this
    // path, whatever it does on others. So it is used only for a request that was challenged itself,
    // which also logs in where HEAD goes unchallenged.
    const own = request.safe || this.#wasChallenged || door.login.probe === 'same';
    const method = own ? request.method : 'HEAD';
    return { method, target: request.upstreamTarget, host: request.upstreamHost };
  }

  get #wasChallenged(): boolean {
    return this.#facts.request.challenged === this.#facts.hop.name;
  }
}

/** Of a login whose credential was found to be good just before. */
class ProbedTicket implements LoginTicket {
  readonly #ticket: LoginTicket;

  constructor(ticket: LoginTicket) {
    this.#ticket = ticket;
  }

  succeeded(target: string): void {
    this.#ticket.succeeded(target);
  }

  rejected(): void {
    this.#ticket.denied();
  }

  denied(): void {
    this.#ticket.denied();
  }

  abandoned(): void {
    this.#ticket.abandoned();
  }

  unsettled(): void {
    this.#ticket.unsettled();
  }
}

/** A CONNECT for `authority`. */
export const connectLeg = (authority: string): LegRequest => ({
  method: 'CONNECT',
  target: authority,
  host: authority,
});

const isTunnel = ({ method }: LegRequest): boolean => method === 'CONNECT';

/** The whole server has no content that HEAD could ask for (RFC 9110 9.3.7). */
const headLeg = (target: string, host: string): LegRequest => ({
  method: target === '*' ? 'OPTIONS' : 'HEAD',
  target,
  host,
});

/** `http://`, an authority, and a path or nothing. */
const ABSOLUTE = /^http:\/\/(?<host>[^/?]+)(?<path>.*)$/s;

/**
 * The leg that asks for what was let in before: `probed` is its target as it was sent, to an origin also
 * by another way than this request goes, which then has another form (RFC 9112 3.2).
 */
function probeLeg(
  probed: string,
  hop: Hop,
  { upstreamTarget, upstreamHost }: OpeningRequest,
): LegRequest {
  const absolute = ABSOLUTE.exec(probed)?.groups;
  // Neither a path nor a URI: as CONNECT has it.
  if (absolute === undefined && !/^[/*]/.test(probed)) return connectLeg(probed);
  if (hop.name === 'parent') return headLeg(probed, absolute?.['host'] ?? upstreamHost);
  const path = absolute?.['path'] ?? probed;
  const authority = ABSOLUTE.exec(upstreamTarget)?.groups?.['host'];
  if (authority === undefined) return headLeg(path === '' ? '/' : path, upstreamHost);
  return headLeg(`http://${authority}${path === '*' ? '' : path}`, upstreamHost);
}
