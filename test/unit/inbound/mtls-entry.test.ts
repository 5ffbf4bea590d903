import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ProxyError } from '../../../src/errors.ts';
import type { ClientCertificate } from '../../../src/identity/client-certificate.ts';
import { confirmationFault } from '../../../src/inbound/jwt/confirmation.ts';
import { MtlsEntry } from '../../../src/inbound/mtls-entry.ts';
import { FakeClock } from '../../support/fake-clock.ts';

const NONE: ClientCertificate['fields'] = {
  cn: [],
  organization: [],
  unit: [],
  issuer: [],
  'san-uri': [],
  'san-dns': [],
  'san-email': [],
};

function certificate(changes: Partial<ClientCertificate> = {}): ClientCertificate {
  return {
    fields: { ...NONE, cn: ['alice'] },
    thumbprint: 'print',
    notBeforeMs: -Infinity,
    notAfterMs: Infinity,
    fault: undefined,
    trust: 'now',
    ...changes,
  };
}

const entryAt = (clock: FakeClock): MtlsEntry =>
  new MtlsEntry({ subject: 'cn', trust: 'now', clock });

const connection = (brought: ClientCertificate | undefined) => ({
  remoteAddress: '127.0.0.1',
  certificate: brought,
});

test('a certificate ends at its last moment, on a connection that was open before', () => {
  const clock = new FakeClock();
  const entry = entryAt(clock);
  const wall = clock.wall();
  const own = connection(certificate({ notBeforeMs: wall, notAfterMs: wall + 1000 }));
  const first = entry.identify(own);
  assert.ok(first !== undefined && !(first instanceof ProxyError));
  assert.equal(entry.identify(own), first, 'one object as long as the connection lives');
  clock.advance(999);
  assert.equal(entry.identify(own), first);
  clock.advance(1);
  assert.ok(entry.identify(own) instanceof ProxyError);
});

test('R51 a certificate is judged by the authorities of now, and by no others', () => {
  const entry = entryAt(new FakeClock());
  assert.ok(entry.identify(connection(certificate({ trust: 'before' }))) instanceof ProxyError);
  assert.ok(
    entry.identify(connection(certificate({ fault: 'CERT_HAS_EXPIRED' }))) instanceof ProxyError,
  );
  assert.equal(entry.identify(connection(undefined)), undefined);
  assert.equal(entry.faultOf(certificate()), undefined);
  assert.equal(entry.faultOf(certificate({ trust: 'before' })), 'was judged by other authorities');
});

test('a token that is bound to a certificate counts with that certificate only', () => {
  const own = certificate();
  const bound = { cnf: { 'x5t#S256': 'print' } };
  assert.equal(confirmationFault({}, undefined), undefined);
  assert.equal(confirmationFault(bound, own), undefined);
  for (const [claims, brought] of [
    [bound, undefined],
    [bound, certificate({ thumbprint: 'other' })],
    [{ cnf: { jkt: 'print' } }, own],
    [{ cnf: { 'x5t#S256': 'print', jkt: 'x' } }, own],
    [{ cnf: {} }, own],
    [{ cnf: null }, own],
    [{ cnf: 'print' }, own],
    [{ cnf: ['x5t#S256', 'print'] }, own],
  ] as const) {
    assert.equal(typeof confirmationFault(claims, brought), 'string', JSON.stringify(claims));
  }
});
