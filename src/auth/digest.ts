/**
 * Digest towards an upstream or a parent proxy (RFC 7616): each request proves the password for its own
 * method and target, under a nonce that the hop gave on this connection. Only where the configuration
 * names it (config.md, Schemes). Quality of protection is `auth`; a body is not covered.
 */
import { createHash } from 'node:crypto';
import { ProxyError } from '../errors.ts';
import type { Challenge } from '../http/challenge.ts';
import type { NtlmIdentity } from '../identity/identity.ts';
import type { RequestLine } from '../upstream/login-state.ts';
import type { SecurityContext } from './security-context.ts';

export interface DigestFacts {
  readonly identity: NtlmIdentity;
  /** What the hop asked with on this connection. */
  readonly challenges: readonly Challenge[];
  /** The request that the first credentials are for. */
  readonly request: RequestLine;
  readonly random: (bytes: number) => Uint8Array;
}

type Hash = (text: string) => string;

const hashWith =
  (algorithm: string): Hash =>
  (text) =>
    createHash(algorithm).update(text, 'utf8').digest('hex');

/** Strongest first (RFC 7616 3.7). */
const ALGORITHMS: readonly (readonly [name: string, hash: Hash])[] = [
  ['sha-256', hashWith('sha256')],
  ['md5', hashWith('md5')],
];

interface Offer {
  readonly params: ReadonlyMap<string, string>;
  readonly hash: Hash;
  /** The key is made anew for each session (`-sess`). */
  readonly session: boolean;
}

export class DigestContext implements SecurityContext {
  readonly scheme = 'Digest';
  readonly complete = true;
  readonly #facts: DigestFacts;
  readonly #offer: Offer;
  #count = 0;

  /** Throws `mechanism-unavailable` without a challenge that can be answered, or without a password. */
  constructor(facts: DigestFacts) {
    const offer = chooseOffer(facts.challenges);
    if (offer === undefined || facts.identity.password === undefined) throw unavailable();
    this.#facts = facts;
    this.#offer = offer;
  }

  /** The credentials of the first request, without the name of the scheme. */
  step(): Uint8Array {
    return Buffer.from(this.#parameters(this.#facts.request), 'latin1');
  }

  /** Those of a later request: the count of the nonce goes on, so none are used twice (R32). */
  credentialsFor(request: RequestLine): string {
    return `${this.scheme} ${this.#parameters(request)}`;
  }

  finish(): void {
    // A peer may prove itself in Authentication-Info; nothing depends on it.
  }

  #parameters({ method, upstreamTarget: uri }: RequestLine): string {
    const { params, hash } = this.#offer;
    const { domain, user } = this.#facts.identity;
    const name = domain === '' ? user : `${domain}\\${user}`;
    const nonce = params.get('nonce') ?? '';
    this.#count += 1;
    const count = this.#count.toString(16).padStart(8, '0');
    const own = Buffer.from(this.#facts.random(16)).toString('hex');
    const asked = `${method}:${uri}`;
    const key = this.#key(name, nonce, own);
    const protects = params.has('qop');
    const middle = protects ? `${nonce}:${count}:${own}:auth` : nonce;
    const fields = [
      nameField(name),
      ...['realm', 'nonce', 'opaque'].flatMap((field) => quotedField(field, params.get(field))),
      ...quotedField('uri', uri),
      ...(params.has('algorithm') ? [`algorithm=${params.get('algorithm')}`] : []),
      ...(protects ? ['qop=auth', `nc=${count}`, `cnonce="${own}"`] : []),
      `response="${hash(`${key}:${middle}:${hash(asked)}`)}"`,
    ];
    return fields.join(', ');
  }

  #key(name: string, nonce: string, own: string): string {
    const { params, hash, session } = this.#offer;
    const { password } = this.#facts.identity;
    const key = hash(`${name}:${params.get('realm') ?? ''}:${password?.reveal() ?? ''}`);
    return session ? hash(`${key}:${nonce}:${own}`) : key;
  }
}

/** Whether the hop refused a nonce and not the credential (RFC 7616 3.3). */
export const isStale = (challenges: readonly Challenge[]): boolean =>
  challenges.some(
    ({ scheme, params }) => scheme === 'digest' && params?.get('stale')?.toLowerCase() === 'true',
  );

function chooseOffer(challenges: readonly Challenge[]): Offer | undefined {
  for (const [name, hash] of ALGORITHMS) {
    for (const { scheme, params } of challenges) {
      if (scheme !== 'digest' || params === undefined || !params.has('nonce')) continue;
      const algorithm = (params.get('algorithm') ?? 'md5').toLowerCase();
      const offered = params
        .get('qop')
        ?.toLowerCase()
        .split(/[\s,]+/) ?? ['auth'];
      const session = algorithm === `${name}-sess`;
      if ((algorithm === name || session) && offered.includes('auth')) {
        return { params, hash, session };
      }
    }
  }
  return undefined;
}

/** Names beyond ASCII go in the extended notation (RFC 7616 3.4, RFC 8187). */
function nameField(name: string): string {
  if (/^[ -~]*$/.test(name)) return quotedField('username', name).join('');
  const escaped = encodeURIComponent(name).replaceAll(/['()*]/g, escapeByte);
  return `username*=UTF-8''${escaped}`;
}

const escapeByte = (char: string): string => `%${char.charCodeAt(0).toString(16).toUpperCase()}`;

/** Targets are callers' words: none may end its parameter, or their requests are refused as ours. */
function quotedField(field: string, value: string | undefined): string[] {
  return value === undefined ? [] : [`${field}="${value.replaceAll(/["\\]/g, '\\$&')}"`];
}

/** Asked first, the hop may give what is needed. */
function unavailable(): ProxyError {
  const facts = { side: 'upstream', stage: 'handshake', retry: 'safe' } as const;
  return new ProxyError('mechanism-unavailable', 'login: no Digest challenge to answer', facts);
}
