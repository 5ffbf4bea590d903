/**
 * Opens connections for the pool, along the path of their partition: dials, goes through the parent
 * proxy where there is one, and logs in at each hop where the partition has an identity.
 *
 *   dial origin ────────────────────────────────────────────▶ login at the origin
 *   dial parent ──▶ login there, requests in absolute-form ──▶ login at the origin
 *   dial parent ──▶ CONNECT with the login in its legs ──▶ TLS ──▶ login at the origin
 *
 * The guard admits each login, or refuses it before anything is dialled.
 */
import { ProxyError } from '../errors.ts';
import type { ConnectionFactory, OpeningDone } from '../pool/factory.ts';
import type { Partition } from '../pool/partition.ts';
import type { ReadBuffers } from '../transport/transport.ts';
import type { UpstreamConnection } from '../upstream/connection.ts';
import { dial, dialInto } from '../upstream/dial.ts';
import { LoginState } from '../upstream/login-state.ts';
import type { OpeningRequest } from '../upstream/opening-request.ts';
import { ConnectionPath } from '../upstream/path.ts';
import type { UpstreamTarget } from '../upstream/target.ts';
import { type Admitted, Door, type DoorDeps } from './admission.ts';
import { abortedLogin, type ConnectionLoginDeps } from './connection-login.ts';
import { HopLogin, type HopLoginFacts } from './hop-login.ts';
import { ORIGIN_HOP, PARENT_HOP } from './login-exchange.ts';
import { ParentTunnel } from './parent-tunnel.ts';

type UpstreamPartition = Partition<UpstreamConnection, OpeningRequest>;

export interface OpenerDeps extends ConnectionLoginDeps, DoorDeps {
  readonly buffers: ReadBuffers;
}

/** A login that the guard has admitted. */
interface Login {
  readonly door: Door;
  readonly admitted: Admitted;
}

/** One opening as its steps see it. */
interface Opening {
  readonly path: ConnectionPath;
  readonly partition: UpstreamPartition;
  readonly request: OpeningRequest;
  readonly signal: AbortSignal;
  readonly origin: Login | undefined;
  readonly parent: Login | undefined;
}

export class ConnectionOpener implements ConnectionFactory<UpstreamConnection, OpeningRequest> {
  readonly #deps: OpenerDeps;

  constructor(deps: OpenerDeps) {
    this.#deps = deps;
  }

  open(
    partition: UpstreamPartition,
    request: OpeningRequest,
    done: OpeningDone<UpstreamConnection>,
  ): { abort(): void } {
    const path = pathOf(partition);
    let logins: Pick<Opening, 'origin' | 'parent'>;
    try {
      logins = this.#admit(partition, path);
    } catch (error) {
      // Nothing began, so nothing is counted as opened.
      done(asProxyError(error, path.origin), undefined);
      return { abort: () => undefined };
    }
    if (logins.origin === undefined && path.parent === undefined)
      return this.#openPlain(partition, path.origin, done);
    const abort = new AbortController();
    void this.#finish({ path, partition, request, signal: abort.signal, ...logins }, done);
    return { abort: () => abort.abort() };
  }

  /** One step: nobody is asked on the way and nobody logs in. */
  #openPlain(
    { key }: UpstreamPartition,
    target: UpstreamTarget,
    done: OpeningDone<UpstreamConnection>,
  ): { abort(): void } {
    return dialInto(this.#deps, target, key, (error, connection) => {
      if (connection !== undefined) this.#deps.legs?.connected(target, connection);
      done(error, connection);
    });
  }

  /** Whether the guard would admit the logins that one more connection needs. */
  mayOpen(partition: UpstreamPartition): boolean {
    const { origin, parent } = this.#doors(partition, pathOf(partition));
    return origin?.hasRoom !== false && parent?.hasRoom !== false;
  }

  #doors(
    { identity, parentIdentity }: UpstreamPartition,
    { origin, parent }: ConnectionPath,
  ): { readonly origin: Door | undefined; readonly parent: Door | undefined } {
    return {
      origin: Door.of(this.#deps, origin, identity),
      parent: Door.of(this.#deps, parent?.target, parentIdentity),
    };
  }

  #admit(partition: UpstreamPartition, path: ConnectionPath): Pick<Opening, 'origin' | 'parent'> {
    const doors = this.#doors(partition, path);
    const parent = doors.parent && { door: doors.parent, admitted: doors.parent.admit() };
    try {
      const origin = doors.origin && { door: doors.origin, admitted: doors.origin.admit() };
      return { origin, parent };
    } catch (error) {
      parent?.admitted.ticket.abandoned();
      throw error;
    }
  }

  async #finish(opening: Opening, done: OpeningDone<UpstreamConnection>): Promise<void> {
    let connection: UpstreamConnection;
    try {
      connection = await this.#run(opening);
    } catch (error) {
      done(asProxyError(error, opening.path.origin), undefined);
      return;
    }
    done(undefined, connection);
  }

  async #run(opening: Opening): Promise<UpstreamConnection> {
    const { path, origin, parent } = opening;
    // The ticket of the parent is the first connection's; each further one asks for its own.
    let admitted = parent?.admitted;
    const reach = (): Promise<UpstreamConnection> => {
      const first = admitted;
      admitted = undefined;
      return this.#reach(opening, first);
    };
    try {
      if (origin === undefined) return await reach();
      // Known to ask for no login: the request goes out plain, and its answer may still change that.
      if (path.origin.learned.challenges === 'no') {
        origin.admitted.ticket.abandoned();
        return await reach();
      }
      const { connection } = await this.#logIn(opening, origin, {
        hop: ORIGIN_HOP,
        connect: reach,
        stateOf: (made) => made.origin,
        isLast: true,
        tunnelTo: undefined,
        parentAsked: () => {
          if (path.parent !== undefined) path.parent.target.learned.persistence = 'request';
        },
      });
      return connection;
    } catch (error) {
      origin?.admitted.ticket.abandoned();
      admitted?.ticket.abandoned();
      throw error;
    }
  }

  /** A connection on which the origin can be spoken to. */
  #reach(opening: Opening, admitted: Admitted | undefined): Promise<UpstreamConnection> {
    const { path, partition, signal } = opening;
    const { parent } = path;
    if (parent === undefined) return this.#dial(opening, path.origin);
    const connect = (): Promise<UpstreamConnection> => this.#dial(opening, parent.target);
    const door = opening.parent?.door;
    if (parent.form === 'absolute') return this.#logInParent(opening, connect, door, admitted);
    // Whoever logs in ends the ticket, maybe as late as with the connection.
    let unused = admitted;
    const take = (of: Door): Admitted => {
      const own = unused ?? of.admit();
      unused = undefined;
      return own;
    };
    return new ParentTunnel(this.#deps, {
      origin: path.origin,
      parent: parent.target,
      partition: partition.key,
      signal,
      connect,
      logIn:
        door &&
        ((tunnelTo) =>
          this.#logIn(
            opening,
            { door, admitted: take(door) },
            { hop: PARENT_HOP, connect, stateOf: parentState, isLast: false, tunnelTo },
          )),
      refuseLogin: () => unused?.ticket.abandoned(),
    }).open();
  }

  async #logInParent(
    opening: Opening,
    connect: () => Promise<UpstreamConnection>,
    door: Door | undefined,
    first: Admitted | undefined,
  ): Promise<UpstreamConnection> {
    if (door === undefined || door.target.learned.challenges === 'no') {
      first?.ticket.abandoned();
      const connection = await connect();
      parentState(connection);
      return connection;
    }
    const login = { door, admitted: first ?? door.admit() };
    const { connection } = await this.#logIn(opening, login, {
      hop: PARENT_HOP,
      connect,
      stateOf: parentState,
      isLast: opening.origin === undefined,
      tunnelTo: undefined,
    });
    parentState(connection);
    return connection;
  }

  #logIn(
    { path, request, partition, signal }: Opening,
    login: Login,
    rest: Pick<
      HopLoginFacts,
      'hop' | 'connect' | 'stateOf' | 'isLast' | 'tunnelTo' | 'parentAsked'
    >,
  ): ReturnType<HopLogin['run']> {
    const partitionKey = sessionKey(path, login.door.target, partition);
    const facts = { ...login, request, partition: partitionKey, signal, ...rest };
    return new HopLogin(this.#deps, facts).run();
  }

  async #dial(
    { path, partition, signal }: Opening,
    target: UpstreamTarget,
  ): Promise<UpstreamConnection> {
    const connection = await dial(this.#deps, target, sessionKey(path, target, partition), signal);
    this.#deps.legs?.connected(target, connection);
    if (!signal.aborted) return connection;
    connection.destroy();
    throw abortedLogin(target);
  }
}

/** The TLS sessions of a parent and of the origin behind it are two (R12). */
const sessionKey = (
  { parent }: ConnectionPath,
  target: UpstreamTarget,
  { key }: UpstreamPartition,
): string => (parent?.target === target ? `parent ${key}` : key);

/** From here on the connection is known to go to a parent: a 407 is its word. */
function parentState(connection: UpstreamConnection): LoginState {
  connection.parent ??= new LoginState();
  return connection.parent;
}

function pathOf({ context, upstream }: UpstreamPartition): ConnectionPath {
  if (context instanceof ConnectionPath) return context;
  throw new Error(`a partition of ${upstream} has no path`);
}

function asProxyError(error: unknown, target: UpstreamTarget): ProxyError {
  if (error instanceof ProxyError) return error;
  const facts = { side: 'internal', stage: 'handshake', cause: error } as const;
  return new ProxyError('internal', `${target.name}: the connection could not be opened`, facts);
}
