/**
 * The daemon's own challenge to a caller who has to say who he is (RFC 9110 11.6.1, 11.7.1; RFC 7617,
 * RFC 6750 3, RFC 4559 4). An upstream's challenges never go this way.
 */

/** What an answer needs to ask for credentials. */
export interface OwnChallenge {
  /** 401 from an origin's place, 407 from a proxy's. */
  readonly status: 401 | 407;
  /** The schemes that a listener takes, in its order. */
  readonly schemes: readonly ChallengeScheme[];
}

export type ChallengeScheme =
  /** `realm` is printable ASCII without quotes and backslashes. */
  | { readonly kind: 'basic'; readonly realm: string }
  | { readonly kind: 'bearer' }
  | { readonly kind: 'negotiate' };

/** The whole field lines without their ends. `refused`: why a token was, in the words of an error. */
export function challengeLines(
  { status, schemes }: OwnChallenge,
  refused?: string,
): readonly string[] {
  const field = status === 401 ? 'WWW-Authenticate' : 'Proxy-Authenticate';
  return schemes.map((scheme) => `${field}: ${challengeOf(scheme, refused)}`);
}

function challengeOf(scheme: ChallengeScheme, refused: string | undefined): string {
  switch (scheme.kind) {
    case 'basic':
      return `Basic realm="${scheme.realm}", charset="UTF-8"`;
    case 'bearer':
      return `Bearer ${bearerParameters(refused)}`;
    case 'negotiate':
      return 'Negotiate';
    default:
      return scheme satisfies never;
  }
}

function bearerParameters(refused: string | undefined): string {
  if (refused === undefined) return 'realm="sidekerb"';
  const description = refused.replaceAll(/[^ !#-[\]-~]/g, '');
  return `realm="sidekerb", error="invalid_token", error_description="${description}"`;
}
