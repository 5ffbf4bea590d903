/** As whom a listener logs in for its callers; whatever is unclear is an error and never "nobody". */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { PrincipalRuleConfig } from '../../../src/config/config.ts';
import { ProxyError } from '../../../src/errors.ts';
import { createNtlmIdentity, type Identity, NO_IDENTITY } from '../../../src/identity/identity.ts';
import { BasicEntry } from '../../../src/inbound/basic-entry.ts';
import { CallerCheck } from '../../../src/inbound/caller-check.ts';
import { PrincipalRules } from '../../../src/inbound/principal-rules.ts';
import { CallerIdentities } from '../../../src/proxy/caller-identities.ts';
import { type KnownCaller, ListenerCallers } from '../../../src/proxy/listener-callers.ts';
import { REQUEST_FIELD, RequestFields, RequestHead } from '../../../src/wire/request-head.ts';
import { FakeClock } from '../../support/fake-clock.ts';
import { ntHashSecret } from '../../support/versioned-secrets.ts';

const SVC = createNtlmIdentity({
  principal: 'svc',
  username: 'CORP\\svc',
  workstation: 'W',
  ntHash: ntHashSecret(),
});

const REALM = 'CORP.EXAMPLE';

function identitiesOf(clock: FakeClock): CallerIdentities {
  return new CallerIdentities({
    deadlines: clock.deadlines,
    max: 10,
    realms: { default: undefined, known: [REALM] },
  });
}

function callersWith(
  rules?: readonly PrincipalRuleConfig[],
  identities = identitiesOf(new FakeClock()),
): ListenerCallers {
  return new ListenerCallers({
    check: new CallerCheck({
      entries: [new BasicEntry(REQUEST_FIELD.authorization, undefined)],
      takesNone: true,
      challenge: undefined,
      meters: { judged: () => undefined },
    }),
    rules: new PrincipalRules(rules),
    own: new Map([['svc', SVC]]),
    fromClient: new Set(['caller']),
    identities,
  });
}

const UNIX = { remoteAddress: 'unix' };

function known(callers: ListenerCallers, user?: string, connection = UNIX): KnownCaller {
  const token = Buffer.from(`${user ?? ''}:x`).toString('base64');
  const field = user === undefined ? '' : `Authorization: Basic ${token}\r\n`;
  const bytes = Buffer.from(`GET / HTTP/1.1\r\nHost: a\r\n${field}\r\n`, 'latin1');
  const head = new RequestHead(new RequestFields([]));
  head.parse(bytes, 0, bytes.length, { maxBytes: 10_000, maxFields: 10 });
  const found = callers.identify(head, bytes, connection);
  assert.ok(!(found instanceof ProxyError) && found.kind === 'known');
  return found;
}

const name = (identity: Identity | ProxyError): string => {
  if (identity instanceof ProxyError) return identity.code;
  if (identity.kind === 'none') return 'nobody';
  return `${identity.principal} ${identity.account}`;
};

describe('the identity for a caller', () => {
  test('is his own, the configured one, or nobody where no principal is named', () => {
    const callers = callersWith();
    const alice = known(callers, 'CORP\\alice');
    const nobody = known(callers);
    assert.equal(name(callers.identity('caller', alice)), 'caller corp\\alice');
    assert.equal(name(callers.identity('svc', nobody)), 'svc corp\\svc');
    assert.equal(callers.identity(undefined, alice), NO_IDENTITY);
  });

  test('is an error for what he may not have', () => {
    const callers = callersWith();
    const alice = known(callers, 'CORP\\alice');
    const nobody = known(callers);
    assert.equal(name(callers.identity('svc', alice)), 'internal', 'nobody verified him');
    assert.equal(name(callers.identity('caller', nobody)), 'internal', 'he has no password');
    assert.equal(name(callers.identity('typo', alice)), 'internal');
    assert.equal(name(callers.identity('typo', nobody)), 'internal');
  });

  test('towards a parent is its own, else what the rule says', () => {
    const rules = [{ when: { client: 'basic', subject: undefined }, use: 'caller' } as const];
    const callers = callersWith(rules);
    const alice = known(callers, 'CORP\\alice');
    assert.equal(name(callers.parentIdentity('svc', alice)), 'internal', 'nobody verified him');
    assert.equal(name(callers.parentIdentity(undefined, alice)), 'caller corp\\alice');
    assert.equal(name(callers.parentIdentity('typo', alice)), 'internal');
    const without = callersWith();
    const bob = known(without, 'CORP\\bob');
    assert.equal(without.parentIdentity(undefined, bob), NO_IDENTITY);
    assert.equal(name(without.parentIdentity('svc', known(without))), 'svc corp\\svc');
  });
});

test('a caller who goes on on one connection can prove himself all the time, and not after', () => {
  const clock = new FakeClock();
  const identities = identitiesOf(clock);
  const callers = callersWith(undefined, identities);
  const connection = { remoteAddress: 'unix' };
  const user = `alice@${REALM}`;
  const identity = callers.himself(known(callers, user, connection));
  assert.equal(identity?.kind, 'combined');
  const password = (): string | undefined => identities.passwordOf(identity.kerberos)?.reveal();
  for (let minutes = 0; minutes < 30; minutes += 5) {
    clock.advance(5 * 60_000);
    known(callers, user, connection);
    assert.equal(password(), 'x', `after ${minutes + 5} minutes`);
  }
  clock.advance(11 * 60_000);
  assert.equal(password(), undefined);
});
