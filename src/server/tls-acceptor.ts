/**
 * The TLS handshakes of one listening address under one set of certificates and authorities. What comes
 * out are connections whose bytes are HTTP, or nothing: a handshake that fails or lasts too long ends
 * its socket.
 *
 * Node's TLS server does the work without a port of its own, and connections are put into it, as its
 * documentation allows. It alone knows whether a certificate was verified (`authorized`).
 */
import type { Socket } from 'node:net';
import { createServer, type Server, type TLSSocket } from 'node:tls';
import { type ClientCertificate, readClientCertificate } from '../identity/client-certificate.ts';
import type { ListenerTls } from './tls-profile.ts';

/** A connection after its handshake. */
export interface SecureConnection {
  /** Not read from yet. */
  readonly socket: TLSSocket;
  /** What the caller brought, verified or not; undefined: nothing. */
  readonly certificate: ClientCertificate | undefined;
  readonly protocol: 'h2' | 'http/1.1';
}

export interface TlsObserver {
  /** `resumed`: from a ticket, without certificates. */
  handshake(result: 'full' | 'resumed' | 'failed'): void;
}

export class TlsAcceptor {
  readonly profile: ListenerTls;
  readonly #server: Server;

  constructor(
    profile: ListenerTls,
    observer: TlsObserver,
    established: (connection: SecureConnection) => void,
  ) {
    this.profile = profile;
    this.#server = createServer(profile.options);
    this.#server.on('secureConnection', (socket) => {
      socket.allowHalfOpen = true;
      observer.handshake(socket.isSessionReused() ? 'resumed' : 'full');
      established({
        socket,
        certificate: certificateOf(socket, profile.trust),
        protocol: socket.alpnProtocol === 'h2' ? 'h2' : 'http/1.1',
      });
    });
    this.#server.on('tlsClientError', (_error, socket) => {
      // Node has said it once for each cause; the socket is ours to end.
      if (!socket.destroyed) socket.destroy();
      observer.handshake('failed');
    });
  }

  /** Takes an accepted socket that nobody has read from. The end of it is told by its own `close`. */
  accept(socket: Socket): void {
    socket.on('error', ignore);
    // Who ends before the handshake wants nothing any more; afterwards he may still wait for an answer.
    socket.allowHalfOpen = false;
    this.#server.emit('connection', socket);
  }
}

const ignore = (): void => undefined;

/** Nothing of a listener that did not ask. */
function certificateOf(
  socket: TLSSocket,
  trust: string | undefined,
): ClientCertificate | undefined {
  const certificate = trust === undefined ? undefined : socket.getPeerX509Certificate();
  if (certificate === undefined || trust === undefined) return undefined;
  const fault = socket.authorized ? undefined : String(socket.authorizationError);
  return readClientCertificate(certificate, { fault, trust });
}
