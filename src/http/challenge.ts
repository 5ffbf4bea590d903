/**
 * Parses what a server or proxy asks for: `WWW-Authenticate` and `Proxy-Authenticate` fields
 * (RFC 9110 11.3, 11.6.1), and decodes the base64 that NTLM and Negotiate put into a token68.
 *
 * Pure text to values. Which scheme is answered, and by whom, is decided in `auth/`.
 */

/** One challenge. A scheme alone has neither token nor parameters. */
export interface Challenge {
  /** Lower case; compared whole, never by prefix. */
  readonly scheme: string;
  readonly token68: string | undefined;
  /** Names in lower case, values unquoted. */
  readonly params: ReadonlyMap<string, string> | undefined;
}

/**
 * The challenges of all fields, in order; one entry of `fields` per field line. A malformed field is
 * dropped whole and the others stand. Linear in the length of the fields.
 */
export function parseChallenges(fields: readonly string[]): Challenge[] {
  return fields.flatMap((field) => new FieldParser(field).parse() ?? []);
}

/**
 * Bytes of a strict base64 text (RFC 4648 4: padding, no white space, no other alphabet, no stray bits);
 * undefined when malformed, empty, or longer than `maxBytes` decoded. The length is checked first.
 */
export function decodeToken68(text: string, maxBytes: number): Buffer | undefined {
  if (text.length === 0 || text.length > Math.ceil(maxBytes / 3) * 4) return undefined;
  const bytes = Buffer.from(text, 'base64');
  // Node's decoder skips what it does not know; encoding again shows whether it did.
  if (bytes.length > maxBytes || bytes.toString('base64') !== text) return undefined;
  return bytes;
}

const TOKEN = /[!#$%&'*+\-.^_`|~0-9A-Za-z]+/y;
const TOKEN68 = /[A-Za-z0-9\-._~+/]+=*/y;
const WHITE = /[ \t]*/y;
const SEPARATORS = /[ \t,]*/y;
const QUOTED = /"(?:[\t !#-[\]-~\x80-\xff]|\\[\t -~\x80-\xff])*"/y;
const ESCAPE = /\\([\s\S])/g;

/** A cursor over one field value. */
class FieldParser {
  readonly #text: string;
  #at = 0;

  constructor(text: string) {
    this.#text = text;
  }

  /** Undefined when malformed. */
  parse(): Challenge[] | undefined {
    const challenges: Challenge[] = [];
    this.#take(SEPARATORS);
    while (this.#at < this.#text.length) {
      const challenge = this.#challenge();
      if (challenge === undefined) return undefined;
      challenges.push(challenge);
    }
    return challenges;
  }

  /** One challenge and the commas after it. */
  #challenge(): Challenge | undefined {
    const scheme = this.#take(TOKEN)?.toLowerCase();
    if (scheme === undefined) return undefined;
    const space = this.#take(WHITE);
    if (this.#endElement()) return { scheme, token68: undefined, params: undefined };
    if (space === '') return undefined;
    const token68 = this.#token68();
    if (token68 !== undefined) return { scheme, token68, params: undefined };
    const params = this.#params();
    return params && { scheme, token68: undefined, params };
  }

  /** A token68 that fills its list element; `a=b` does not, and is a parameter. */
  #token68(): string | undefined {
    const start = this.#at;
    const token = this.#take(TOKEN68);
    if (token !== undefined) {
      this.#take(WHITE);
      if (this.#endElement()) return token;
    }
    this.#at = start;
    return undefined;
  }

  /** One parameter at least; the first list element that is none belongs to the next challenge. */
  #params(): ReadonlyMap<string, string> | undefined {
    const params = new Map<string, string>();
    for (;;) {
      const start = this.#at;
      const param = this.#param();
      if (param === undefined) {
        this.#at = start;
        return params.size > 0 ? params : undefined;
      }
      // A parameter occurs once (RFC 9110 11.2); two answers to one question are no answer.
      if (params.has(param.name) || !this.#endElement()) return undefined;
      params.set(param.name, param.value);
    }
  }

  /** `token BWS "=" BWS ( token / quoted-string ) OWS`. */
  #param(): { name: string; value: string } | undefined {
    const name = this.#take(TOKEN)?.toLowerCase();
    this.#take(WHITE);
    if (name === undefined || this.#text[this.#at] !== '=') return undefined;
    this.#at += 1;
    this.#take(WHITE);
    const quoted = this.#take(QUOTED);
    const value = quoted === undefined ? this.#take(TOKEN) : unquote(quoted);
    this.#take(WHITE);
    return value === undefined ? undefined : { name, value };
  }

  /** True at the end of a list element, with the commas passed. */
  #endElement(): boolean {
    if (this.#at < this.#text.length && this.#text[this.#at] !== ',') return false;
    this.#take(SEPARATORS);
    return true;
  }

  #take(pattern: RegExp): string | undefined {
    pattern.lastIndex = this.#at;
    const match = pattern.exec(this.#text)?.[0];
    if (match !== undefined) this.#at += match.length;
    return match;
  }
}

function unquote(quoted: string): string {
  return quoted.slice(1, -1).replace(ESCAPE, '$1');
}
