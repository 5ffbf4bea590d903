/**
 * What the daemon and a Kerberos helper process say to each other. Tokens travel as bytes; texts of
 * the native library travel as they are and get their code in `native-errors.ts`.
 */

export type ToHelper =
  | {
      readonly kind: 'initiate';
      readonly id: number;
      /** `user@REALM`; undefined: whoever the default cache belongs to. */
      readonly principal: string | undefined;
      /** `HTTP/host`. */
      readonly spn: string;
    }
  /** The peer's last token for the context of that call. */
  | { readonly kind: 'finish'; readonly id: number; readonly token: Uint8Array }
  /** The context of that call is no longer needed. */
  | { readonly kind: 'dispose'; readonly id: number }
  /** A caller's token, for the acceptor. */
  | { readonly kind: 'accept'; readonly id: number; readonly token: Uint8Array };

export type FromHelper =
  | { readonly kind: 'ready' }
  /** The package or a library below it is not there; the helper ends. */
  | { readonly kind: 'missing'; readonly text: string }
  | { readonly kind: 'token'; readonly id: number; readonly token: Uint8Array }
  | { readonly kind: 'finished'; readonly id: number; readonly complete: boolean }
  | {
      readonly kind: 'accepted';
      readonly id: number;
      /** As the library writes it: `user@REALM`, other slashes and at signs escaped. */
      readonly name: string;
      /** Empty where the caller gets none. */
      readonly token: Uint8Array;
    }
  /** A call of any kind failed; its context is gone. */
  | { readonly kind: 'failed'; readonly id: number; readonly text: string };
