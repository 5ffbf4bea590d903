/**
 * Challenges as a security decision has to read them: leaving one out must not make a refusal look
 * like an answer. What can be answered is `challenge.ts`.
 */
import { type Challenge, parseChallenges } from './challenge.ts';

/** A word where a scheme may stand: at the start, or behind a comma. */
const SCHEME = /(?:^|,)[ \t]*([!#$%&'*+\-.^_`|~0-9A-Za-z]+)/g;

/**
 * The challenges of all field lines. A malformed line counts as asking, without a token, for every
 * scheme that it may name: a peer that cannot write a list still refuses with it.
 */
export function askedChallenges(fields: readonly string[]): Challenge[] {
  return fields.flatMap((field) => {
    const sound = parseChallenges([field]);
    return sound.length > 0 ? sound : [...field.matchAll(SCHEME)].map(([, word]) => bare(word));
  });
}

const bare = (word = ''): Challenge => ({
  scheme: word.toLowerCase(),
  token68: undefined,
  params: undefined,
});
