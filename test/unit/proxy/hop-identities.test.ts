/** A rule that gives a caller what he may not have is an error at every hop, and never "nobody". */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { PrincipalRuleConfig } from '../../../src/config/config.ts';
import { ProxyError } from '../../../src/errors.ts';
import { createNtlmIdentity, NO_IDENTITY } from '../../../src/identity/identity.ts';
import { createBasicCaller } from '../../../src/inbound/basic-credentials.ts';
import { type Caller, NO_CALLER } from '../../../src/inbound/caller.ts';
import { CallerCheck } from '../../../src/inbound/caller-check.ts';
import { PrincipalRules } from '../../../src/inbound/principal-rules.ts';
import { CallerIdentities } from '../../../src/proxy/caller-identities.ts';
import { CallerHopIdentities, type HopIdentity } from '../../../src/proxy/hop-identities.ts';
import { ListenerCallers } from '../../../src/proxy/listener-callers.ts';
import { FakeClock } from '../../support/fake-clock.ts';
import { ntHashSecret } from '../../support/versioned-secrets.ts';

const SVC = createNtlmIdentity({
  principal: 'svc',
  username: 'CORP\\svc',
  workstation: 'W',
  ntHash: ntHashSecret(),
});

const NOBODY_VERIFIED = createBasicCaller('alice', 'x');

function hops(
  caller: Caller,
  rules: readonly PrincipalRuleConfig[] | undefined,
  fromClient: readonly string[] = [],
): CallerHopIdentities {
  const meters = { judged: () => undefined };
  const principalRules = new PrincipalRules(rules);
  const rule = principalRules.judge(caller);
  assert.ok(!(rule instanceof ProxyError));
  const callers = new ListenerCallers({
    check: new CallerCheck({ entries: [], takesNone: true, challenge: undefined, meters }),
    rules: principalRules,
    own: new Map([['svc', SVC]]),
    fromClient: new Set(fromClient),
    identities: new CallerIdentities({
      deadlines: new FakeClock().deadlines,
      max: 10,
      realms: { default: undefined, known: [] },
    }),
  });
  return new CallerHopIdentities(callers, { kind: 'known', caller, rule });
}

const use = (principal: string): PrincipalRuleConfig[] => [
  { when: { client: undefined, subject: undefined }, use: principal },
];

const codeOf = (found: HopIdentity | ProxyError): string =>
  found instanceof ProxyError ? found.code : found.identity.kind;

describe('a caller with a rule', () => {
  for (const [what, caller, principal, fromClient] of [
    ['whom nobody verified, and who is given another one', NOBODY_VERIFIED, 'svc', []],
    ['who is given himself and brought no password', NO_CALLER, 'self', ['self']],
    ['who is given a principal that does not exist', NO_CALLER, 'typo', []],
  ] as const) {
    test(`is refused at both hops: ${what}`, () => {
      const who = hops(caller, use(principal), fromClient);
      for (let round = 0; round < 2; round += 1) {
        assert.equal(codeOf(who.atOrigin('svc')), 'internal');
        assert.equal(codeOf(who.atOrigin(undefined)), 'internal');
        assert.equal(codeOf(who.atParent(undefined)), 'internal');
      }
    });

    test(`shares no plan with those who are nobody, nor with others: ${what}`, () => {
      const who = hops(caller, use(principal), fromClient);
      assert.notEqual(who.self, NO_IDENTITY);
      assert.notEqual(who.self, hops(caller, use(principal), fromClient).self);
    });
  }

  test('is who the rule says, and shares what is made for that', () => {
    assert.equal(hops(NO_CALLER, use('svc')).self, SVC);
    assert.equal(codeOf(hops(NO_CALLER, use('svc')).atParent(undefined)), 'ntlm');
  });

  test('is nobody where there are no rules and no principals', () => {
    const who = hops(NO_CALLER, undefined);
    assert.equal(who.self, NO_IDENTITY);
    assert.equal(codeOf(who.atOrigin(undefined)), 'none');
    assert.equal(codeOf(who.atParent(undefined)), 'none');
  });
});
