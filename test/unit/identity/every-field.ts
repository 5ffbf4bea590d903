/** An identity of each kind, and for each of its fields one that differs in that field alone. */
import assert from 'node:assert/strict';

import { COMBINED_FIELDS, KERBEROS_FIELDS, NTLM_FIELDS } from '../../../src/identity/digest.ts';
import {
  createCombinedIdentity,
  createKerberosIdentity,
  createNtlmIdentity,
  type Identity,
  type KerberosIdentity,
  type LoginIdentity,
  type NtlmIdentity,
  ownIdentity,
} from '../../../src/identity/identity.ts';
import {
  credentialVersion,
  ntHashSecret,
  passwordSecret,
} from '../../support/versioned-secrets.ts';

/** Equal identities, each time other objects. */
export const newAccount = (): NtlmIdentity =>
  createNtlmIdentity({
    principal: 'crm',
    username: 'CORP\\svc',
    workstation: 'WORKSTATION',
    ntHash: ntHashSecret(1),
  });

export const newTicket = (): KerberosIdentity =>
  createKerberosIdentity({
    principal: 'crm',
    name: 'svc@CORP.EXAMPLE',
    source: 'ccache',
    credential: '/run/svc.cc',
    version: credentialVersion('1'),
  });

export const newPerson = (): LoginIdentity => createCombinedIdentity(newTicket(), newAccount());

type OtherValues<Fields> = Readonly<Record<Exclude<keyof Fields, 'kind'>, unknown>>;

const OTHER_ACCOUNT: OtherValues<typeof NTLM_FIELDS> = {
  principal: 'crm2',
  domain: 'CORP2',
  user: 'svc2',
  workstation: '',
  ntHash: ntHashSecret(2),
  password: passwordSecret('canary'),
};
const OTHER_TICKET: OtherValues<typeof KERBEROS_FIELDS> = {
  principal: 'crm2',
  name: 'svc@OTHER.EXAMPLE',
  source: 'password',
  credential: '/run/other.cc',
  version: credentialVersion('2'),
};
const OTHER_PERSON: OtherValues<typeof COMBINED_FIELDS> = {
  principal: 'crm2',
  kerberos: createKerberosIdentity({ ...newTicket(), version: credentialVersion('2') }),
  ntlm: createNtlmIdentity({ ...newAccount(), username: 'CORP\\svc', ntHash: ntHashSecret(2) }),
};

/** By kind: the identity as made, the encoders, and another value for each field. */
const KINDS = [
  [newAccount, NTLM_FIELDS, OTHER_ACCOUNT],
  [newTicket, KERBEROS_FIELDS, OTHER_TICKET],
  [newPerson, COMBINED_FIELDS, OTHER_PERSON],
] as const;

/** These follow from others when an identity is made; no two of ours differ in them alone. */
const FOLLOWING = ['account', 'generation'];

export interface Variant {
  /** Kind and field. */
  readonly name: string;
  /** With one field changed; nobody's, and open to further changes. */
  readonly thawed: Identity;
  /** The same as `identity.ts` makes it; undefined where the field follows from others there. */
  readonly own: LoginIdentity | undefined;
}

/** Each kind as it is, and with each of its fields changed: all differ from each other. */
export function everyVariant(): Variant[] {
  return KINDS.flatMap(([make, fields, others]) => {
    const base: LoginIdentity = make();
    const names = Object.keys(base).filter((field) => !FOLLOWING.includes(field));
    assert.deepEqual(names.sort(), Object.keys(fields).sort(), 'a field without an encoder');
    const changed = Object.entries(others).map(([field, value]: [string, unknown]): Variant => {
      const thawed: LoginIdentity = { ...base, [field]: value };
      const copy = ownIdentity(thawed);
      const isKept = Object.entries(copy).some(([name, kept]) => name === field && kept === value);
      return { name: `${base.kind} ${field}`, thawed, own: isKept ? copy : undefined };
    });
    return [{ name: base.kind, thawed: { ...base }, own: base }, ...changed];
  });
}
