/**
 * Where an identity remembers its digest: in a private field of its own. A copy of the object is
 * without it, nobody else can write it, and it goes when the identity goes.
 */

/** HMAC-SHA256 under a random key of the process, in full width, hexadecimal. */
export type IdentityDigest = string & { readonly brand: 'IdentityDigest' };

/** Its constructor gives back what it is given, so that the class below adds its field to that. */
// oxlint-disable-next-line typescript/no-extraneous-class -- a function cannot be extended with types
class Given {
  constructor(object: object) {
    return object;
  }
}

class Memo extends Given {
  #digest: IdentityDigest | undefined = undefined;

  static add(object: object): object {
    return new Memo(object);
  }

  static has(object: object): boolean {
    return #digest in object;
  }

  static read(object: object): IdentityDigest | undefined {
    return #digest in object ? object.#digest : undefined;
  }

  static write(object: object, digest: IdentityDigest): void {
    if (#digest in object) object.#digest = digest;
  }
}

/**
 * Freezes `object` and lets it remember its digest. Only for objects that `identity.ts` has made and
 * that hold nothing mutable: what is remembered is never computed again.
 */
export function freezeWithMemo<T extends object>(object: T): Readonly<T> {
  Memo.add(object);
  return Object.freeze(object);
}

/** Whether `freezeWithMemo` made it: nothing in it can change. */
export const hasMemo = (object: object): boolean => Memo.has(object);

/** Undefined also for objects without a memo. */
export const rememberedDigest = (object: object): IdentityDigest | undefined => Memo.read(object);

/** Does nothing for objects without a memo. */
export const rememberDigest = (object: object, digest: IdentityDigest): void =>
  Memo.write(object, digest);
