/**
 * Reads JSON objects from parties that may lie: what two readers could understand differently is
 * refused. `JSON.parse` takes the last of two members with one name, keeps half surrogate pairs, makes
 * Infinity of 1e999, and gives objects a prototype.
 */

/** A value as JSON has it. */
export type JsonValue = string | number | boolean | null | readonly JsonValue[] | JsonObject;

/** Frozen, without a prototype. */
export interface JsonObject {
  readonly [name: string]: JsonValue;
}

/** Objects and lists inside each other, the outermost counted. Tokens and key sets have about four. */
const MAX_DEPTH = 32;

/**
 * The object that `text` (RFC 8259) is, deeply frozen; or what is wrong with it, as the end of a sentence
 * that quotes nothing.
 */
export function parseJsonObject(
  text: string,
): { readonly object: JsonObject } | { readonly fault: string } {
  try {
    return { object: new Reader(text).document() };
  } catch (error) {
    if (error instanceof Malformed) return { fault: error.message };
    throw error;
  }
}

class Malformed extends Error {}

const NOT_JSON = 'is not JSON';

const NUMBER = /-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?/y;
const WHITE = /[ \t\n\r]*/y;
const WORDS = [
  ['true', true],
  ['false', false],
  ['null', null],
] as const;

/** A cursor over one text. */
class Reader {
  readonly #text: string;
  #at = 0;
  #depth = 0;

  constructor(text: string) {
    this.#text = text;
  }

  document(): JsonObject {
    this.#skipWhite();
    if (this.#text[this.#at] !== '{') {
      this.#value();
      this.#end();
      throw new Malformed('is no JSON object');
    }
    const object = this.#object();
    this.#end();
    return object;
  }

  #end(): void {
    this.#skipWhite();
    if (this.#at !== this.#text.length) throw new Malformed(NOT_JSON);
  }

  #value(): JsonValue {
    switch (this.#text[this.#at]) {
      case '{':
        return this.#object();
      case '[':
        return this.#list();
      case '"':
        return this.#string();
      default:
        return this.#scalar();
    }
  }

  #object(): JsonObject {
    // Without a prototype `__proto__` is a name like any other.
    const object: Record<string, JsonValue> = Object.create(null) as Record<string, JsonValue>;
    this.#members('}', () => {
      const name = this.#string();
      if (name in object) throw new Malformed('has two members of one name');
      this.#skipWhite();
      this.#expect(':');
      this.#skipWhite();
      object[name] = this.#value();
    });
    return Object.freeze(object);
  }

  #list(): readonly JsonValue[] {
    const list: JsonValue[] = [];
    this.#members(']', () => list.push(this.#value()));
    return Object.freeze(list);
  }

  /** What stands between the bracket at the cursor and `close`, which ends it. */
  #members(close: string, read: () => void): void {
    this.#depth += 1;
    if (this.#depth > MAX_DEPTH) throw new Malformed('is nested too deeply');
    this.#at += 1;
    this.#skipWhite();
    if (this.#text[this.#at] === close) this.#at += 1;
    else this.#filled(close, read);
    this.#depth -= 1;
  }

  #filled(close: string, read: () => void): void {
    for (;;) {
      read();
      this.#skipWhite();
      if (this.#text[this.#at] === close) break;
      this.#expect(',');
      this.#skipWhite();
    }
    this.#at += 1;
  }

  #string(): string {
    this.#expect('"');
    const start = this.#at;
    let escaped = false;
    for (;;) {
      const code = this.#text.charCodeAt(this.#at);
      // NaN past the end is not at least 0x20 either.
      if (!(code >= 0x20)) throw new Malformed(NOT_JSON);
      if (code === 0x22) break;
      if (code === 0x5c) {
        escaped = true;
        this.#at += 1;
      }
      this.#at += 1;
    }
    this.#at += 1;
    if (!escaped) return wellFormed(this.#text.slice(start, this.#at - 1));
    return wellFormed(unescape(this.#text.slice(start - 1, this.#at)));
  }

  #scalar(): number | boolean | null {
    for (const [word, value] of WORDS) {
      if (!this.#text.startsWith(word, this.#at)) continue;
      this.#at += word.length;
      return value;
    }
    NUMBER.lastIndex = this.#at;
    const digits = NUMBER.exec(this.#text)?.[0];
    if (digits === undefined) throw new Malformed(NOT_JSON);
    this.#at += digits.length;
    const number = Number(digits);
    if (!Number.isFinite(number)) throw new Malformed('has a number out of range');
    return number;
  }

  #skipWhite(): void {
    // Most tokens have none at all.
    if (this.#text.charCodeAt(this.#at) > 0x20) return;
    WHITE.lastIndex = this.#at;
    this.#at += WHITE.exec(this.#text)?.[0].length ?? 0;
  }

  #expect(character: string): void {
    if (this.#text[this.#at] !== character) throw new Malformed(NOT_JSON);
    this.#at += 1;
  }
}

/** One JSON string with its quotes, whose end is known. */
function unescape(quoted: string): string {
  try {
    return String(JSON.parse(quoted));
  } catch {
    // The only error there can be: an escape that JSON does not have.
    throw new Malformed(NOT_JSON);
  }
}

/** Half of a surrogate pair would become U+FFFD when it is written: two names would become one. */
function wellFormed(text: string): string {
  if (!text.isWellFormed()) throw new Malformed('has text that is not Unicode');
  return text;
}
