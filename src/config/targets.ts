/**
 * Entries of a forward listener's `allow` and `direct` lists as the file writes them. Only their
 * form is judged here; matching them against a target is the forward listener's work.
 */

import { parseAllowEntry, parseDirectEntry } from '../http/forward-entries.ts';

/** `host-glob:ports`, `CIDR:ports`, `!` in front to deny; ports are `443`, `8000-8999` or `*`. */
export const isAllowEntry = (text: string): boolean => parseAllowEntry(text) !== undefined;

/** A name, `.suffix`, `*.suffix`, an address, a CIDR range, or one of these with a port. */
export const isDirectEntry = (text: string): boolean => parseDirectEntry(text) !== undefined;
