/**
 * The target of a request on a forward listener: absolute-form with `http`, or the authority of a
 * CONNECT (RFC 9112 3.2.2, 3.2.3). The target's authority is the only one that counts; Host is
 * written anew from it (hostile row D4). Whether it may be reached is `forward-rules.ts`'s.
 */
import { parseAuthority } from './authority.ts';
import { splitAbsolute } from './request-target.ts';

export interface ForwardTarget {
  /** Lower case, without brackets and without a trailing dot. */
  readonly host: string;
  readonly port: number;
  /** The authority as written: the new Host value. */
  readonly authority: string;
}

const HTTP_PORT = 80;

/** Parses `http://authority`; undefined for other schemes, userinfo, or a bad authority. */
export function parseHttpTarget(schemeAndAuthority: string): ForwardTarget | undefined {
  const parts = splitAbsolute(schemeAndAuthority);
  if (parts === undefined || parts.scheme !== 'http') return undefined;
  const { authority, authorityText } = parts;
  return { host: authority.host, port: authority.port ?? HTTP_PORT, authority: authorityText };
}

/** Parses the target of a CONNECT; undefined without a port. */
export function parseConnectTarget(text: string): ForwardTarget | undefined {
  const authority = parseAuthority(text);
  if (authority?.port === undefined) return undefined;
  return { host: authority.host, port: authority.port, authority: text };
}
