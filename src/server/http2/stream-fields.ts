/**
 * Translates the head of an HTTP/2 request into the fields of an HTTP/1.1 one (RFC 9113 8.2, 8.3).
 *
 * Every line goes on by itself, doubled ones too: which of them are a fault is for the strict parser
 * behind to say, once for both versions. Refused here is only what would not arrive there as it came.
 */
import { ProxyError } from '../../errors.ts';

export interface StreamFields {
  readonly method: string;
  /** As received. */
  readonly path: string;
  /** Names in lower case; several lines of one name are a list. */
  readonly fields: ReadonlyMap<string, string | readonly string[]>;
  /** The value of Expect, which is not among `fields`. */
  readonly expect: string | undefined;
  /** The caller takes trailers (RFC 9110 10.1.4). */
  readonly takesTrailers: boolean;
}

export interface StreamFacts {
  readonly scheme: 'http' | 'https';
  /** No body follows the head. */
  readonly endsWithHead: boolean;
}

/** Fields of a connection; a stream has none (RFC 9113 8.2.2). */
const OF_CONNECTIONS = new Set([
  'connection',
  'keep-alive',
  'proxy-connection',
  'transfer-encoding',
  'upgrade',
  'http2-settings',
]);

/** What stands in a request line without being taken for its end, from `/` on. */
const PATH = /^\/[\x21-\x7e]*$/;
const METHOD = /^[!#$%&'*+.^_`|~0-9A-Z-]+$/;

/** `raw`: names and values in turn, pseudo-header fields among them. */
export function translateFields(
  raw: readonly string[],
  facts: StreamFacts,
): StreamFields | ProxyError {
  const pseudo = new Map<string, string>();
  const lines = new Map<string, string[]>();
  for (let at = 0; at < raw.length; at += 2) {
    const name = raw[at] ?? '';
    const value = raw[at + 1] ?? '';
    if (name.startsWith(':')) pseudo.set(name, value);
    else if (OF_CONNECTIONS.has(name)) return malformed(`${name} is a field of connections`);
    else if (lines.has(name)) lines.get(name)?.push(value);
    else lines.set(name, [value]);
  }
  const refused = refusePseudo(pseudo, facts.scheme);
  if (refused !== undefined) return refused;
  const host = theHost(lines.get('host') ?? [], pseudo.get(':authority'));
  if (host === undefined) return malformed('Host is missing, or differs from :authority');
  const expect = lines.get('expect')?.join(', ');
  return {
    method: pseudo.get(':method') ?? '',
    path: pseudo.get(':path') ?? '',
    fields: fieldsOf(lines, host, facts),
    expect,
    takesTrailers: lines.get('te')?.some((value) => value.toLowerCase() === 'trailers') === true,
  };
}

function refusePseudo(
  pseudo: ReadonlyMap<string, string>,
  scheme: 'http' | 'https',
): ProxyError | undefined {
  const method = pseudo.get(':method') ?? '';
  if (method === 'CONNECT' || method === 'TRACE' || pseudo.has(':protocol')) {
    return refusal('method-refused', `${method} is not served`);
  }
  // Node's client writes methods in upper case: another method than the caller's would go upstream.
  if (!METHOD.test(method)) return malformed('the method is not in upper case');
  if (!PATH.test(pseudo.get(':path') ?? '')) return malformed('the path is none');
  if (pseudo.get(':scheme') === scheme) return undefined;
  return malformed('the scheme is not that of the connection');
}

function fieldsOf(
  lines: ReadonlyMap<string, readonly string[]>,
  host: string,
  { endsWithHead }: StreamFacts,
): ReadonlyMap<string, string | readonly string[]> {
  const fields = new Map<string, string | readonly string[]>();
  fields.set('host', host);
  for (const [name, values] of lines) {
    if (name === 'host' || name === 'expect') continue;
    // A caller may send each cookie in a line of its own (RFC 9113 8.2.3).
    fields.set(name, name === 'cookie' ? values.join('; ') : oneOrMore(values));
  }
  // Without it Node's client writes a body after GET, HEAD, DELETE and OPTIONS with no framing at all.
  if (!endsWithHead && !lines.has('content-length')) fields.set('transfer-encoding', 'chunked');
  return fields;
}

/** undefined: there is none, or there are two, of which nobody knows who reads which (hostile row D2). */
function theHost(hosts: readonly string[], authority: string | undefined): string | undefined {
  const all = authority === undefined ? hosts : [authority, ...hosts];
  const [first] = all;
  if (first === undefined || hosts.length > 1) return undefined;
  return all.every((host) => host.toLowerCase() === first.toLowerCase()) ? first : undefined;
}

const oneOrMore = (values: readonly string[]): string | readonly string[] =>
  values.length === 1 ? (values[0] ?? '') : values;

function refusal(code: 'method-refused' | 'request-malformed', message: string): ProxyError {
  return new ProxyError(code, message, { side: 'downstream', stage: 'request' });
}

const malformed = (message: string): ProxyError => refusal('request-malformed', message);
