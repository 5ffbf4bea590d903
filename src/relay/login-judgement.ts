/**
 * What an answer says of the logins that it ends: first of the one at the parent proxy, then, behind it,
 * of the one at the origin (config.md, 401 table). What it leads to is `response-reader.ts`'s.
 */
import { askedChallenges } from '../http/asked-challenges.ts';
import type { UpstreamConnection } from '../upstream/connection.ts';
import type { FinalAnswer, HopName, LoginState, LoginVerdict } from '../upstream/login-state.ts';
import { fieldValues } from '../wire/field-values.ts';
import { RESPONSE_FIELD, type ResponseHead } from '../wire/response-head.ts';

/** undefined: the answer ends no login. */
export type Judged = { readonly hop: HopName; readonly verdict: LoginVerdict } | undefined;

/** The status with which a parent proxy asks. */
export const PROXY_AUTHENTICATION_REQUIRED = 407;

const CHALLENGE_FIELD = {
  origin: RESPONSE_FIELD.wwwAuthenticate,
  parent: RESPONSE_FIELD.proxyAuthenticate,
} as const;

/** Schemes that the answer asks for at `hop`, lower case. */
export const schemesOf = (head: ResponseHead, buffer: Buffer, hop: HopName): string[] =>
  askedChallenges(fieldValues(head, buffer, CHALLENGE_FIELD[hop])).map(({ scheme }) => scheme);

/** A promise where a peer's last token is checked elsewhere; it rejects with what that throws. */
export function judgeAnswer(
  connection: UpstreamConnection | undefined,
  head: ResponseHead,
  buffer: Buffer,
): Judged | Promise<Judged> {
  if (connection?.isPending !== true) return undefined;
  const { origin, parent } = connection;
  // The buffer is the transport's: what a later judgement needs is taken out of it now.
  const forOrigin = finalAnswer(head, buffer, 'origin');
  if (parent === undefined) return atOrigin(origin, forOrigin);
  const judged = judgeHop(parent, finalAnswer(head, buffer, 'parent'));
  const behind = (verdict: LoginVerdict | undefined): Judged | Promise<Judged> => {
    if (head.status !== PROXY_AUTHENTICATION_REQUIRED) return atOrigin(origin, forOrigin);
    // It came no further: nothing is known of the other credential.
    origin.end();
    return verdict && { hop: 'parent', verdict };
  };
  return judged instanceof Promise ? judged.then(behind) : behind(judged);
}

const finalAnswer = (head: ResponseHead, buffer: Buffer, hop: HopName): FinalAnswer => ({
  status: head.status,
  challenges: fieldValues(head, buffer, CHALLENGE_FIELD[hop]),
  // Between a client and its origin (MS-N2HT): a parent passes it on.
  persistentAuth: hop === 'parent' ? [] : fieldValues(head, buffer, RESPONSE_FIELD.persistentAuth),
});

function atOrigin(origin: LoginState, answer: FinalAnswer): Judged | Promise<Judged> {
  const judged = judgeHop(origin, answer);
  if (judged instanceof Promise) return judged.then((verdict) => ({ hop: 'origin', verdict }));
  return judged && { hop: 'origin', verdict: judged };
}

/** Ends what is pending at one hop; undefined when nothing is. Never throws: it rejects. */
function judgeHop(
  state: LoginState,
  answer: FinalAnswer,
): LoginVerdict | undefined | Promise<LoginVerdict> {
  const { pending } = state;
  state.pending = undefined;
  try {
    return pending?.judge(answer);
  } catch (error) {
    return Promise.reject(error);
  }
}
