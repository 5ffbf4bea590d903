/** The forms of addresses, hosts and header names that several sections of the file share. */

import { isAddressRange, parseHostPattern, parseListenAddress } from './addresses.ts';
import * as s from './schema.ts';
import { isIdentityField } from './urls.ts';

export function listenAddresses() {
  const wanted =
    'wanted: ADDRESS:PORT with an IP address (IPv6 in brackets) or localhost, or unix:/path';
  return s.list(
    s.text(wanted, (value) => parseListenAddress(value) !== undefined),
    1,
  );
}

export function socketMode() {
  return s
    .pattern("wanted: an octal mode in quotes, such as '0660'", /^0[0-7]{3}$/)
    .prefault('0660');
}

export function hostPatterns() {
  const wanted =
    'wanted: a host name, *.name or address (IPv6 in brackets), with or without a port';
  return s.list(
    s.text(wanted, (value) => parseHostPattern(value) !== undefined),
    1,
  );
}

/** A field that says who a caller is. */
export function identityFieldName() {
  const wanted = 'wanted: the name of a header field that has no other meaning to a proxy';
  return s.text(wanted, isIdentityField);
}

export function addressRange() {
  return s.text('wanted: an IP address or a range such as 10.0.0.0/8', isAddressRange);
}
