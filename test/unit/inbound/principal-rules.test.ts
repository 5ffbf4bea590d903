/** Which principal a caller gets on which hop (config.md, "Which principal"). */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { ClaimPatterns, PrincipalRuleConfig } from '../../../src/config/config.ts';
import { ProxyError } from '../../../src/errors.ts';
import { createBasicCaller } from '../../../src/inbound/basic-credentials.ts';
import { type Caller, type Claims, NO_CALLER } from '../../../src/inbound/caller.ts';
import {
  globOf,
  originPrincipal,
  parentPrincipal,
  PrincipalRules,
} from '../../../src/inbound/principal-rules.ts';

const basic = (user: string): Caller => createBasicCaller(user, '');

const rule = (
  client: 'basic' | 'none' | undefined,
  subject: string | undefined,
  use: string,
): PrincipalRuleConfig => ({ when: { client, subject }, use });

const verdict = (rules: PrincipalRules, caller: Caller): string => {
  const said = rules.judge(caller);
  if (said instanceof ProxyError) return said.code;
  return said.kind === 'use' ? said.principal : said.kind;
};

const token = (claims: Claims, subject?: string, issuer = 'idp'): Caller => ({
  kind: 'jwt',
  issuer,
  subject,
  claims,
});

const byClaim = (claim: ClaimPatterns): PrincipalRules =>
  new PrincipalRules([{ when: { client: 'jwt', subject: undefined, claim }, use: 'yes' }]);

describe('a rule about claims', () => {
  const rows: [what: string, pattern: ClaimPatterns, claims: Claims, matches: boolean][] = [
    ['text', { groups: 'crm' }, { groups: 'crm' }, true],
    ['other text', { groups: 'crm' }, { groups: 'CRM' }, false],
    ['a part of a text', { groups: 'crm' }, { groups: 'crm sales' }, false],
    ['a member of a list', { groups: 'crm' }, { groups: ['sales', 'crm'] }, true],
    ['a list without it', { groups: 'crm' }, { groups: ['sales'] }, false],
    ['a list in a list', { groups: 'crm' }, { groups: [['crm']] }, false],
    ['no claim', { groups: 'crm' }, {}, false],
    ['nothing where a claim is wanted', { groups: 'crm' }, { groups: null }, false],
    ['a claim of the prototype', { toString: 'x' }, {}, false],
    ['a number', { level: 3 }, { level: 3 }, true],
    ['a number as text', { level: 3 }, { level: '3' }, false],
    ['a truth', { admin: true }, { admin: true }, true],
    ['a truth as text', { admin: true }, { admin: 'true' }, false],
    ['what is nested', { realm: { roles: 'crm' } }, { realm: { roles: ['crm'] } }, true],
    ['a path that is none', { realm: { roles: 'crm' } }, { 'realm.roles': 'crm' }, false],
    ['a name with dots', { 'https://x/groups': 'a' }, { 'https://x/groups': 'a' }, true],
    ['a list where a map is wanted', { realm: { 0: 'crm' } }, { realm: ['crm'] }, false],
    ['all of several', { a: 'x', b: 'y' }, { a: 'x', b: ['y'] }, true],
    ['one of several', { a: 'x', b: 'y' }, { a: 'x' }, false],
  ];
  for (const [what, pattern, claims, matches] of rows) {
    test(`${matches ? 'takes' : 'does not take'} ${what}`, () => {
      const expected = matches ? 'yes' : 'no-principal';
      assert.equal(verdict(byClaim(pattern), token(claims)), expected);
    });
  }

  test('is for nobody without a token', () => {
    const any: PrincipalRuleConfig = {
      when: { client: undefined, subject: undefined, claim: {} },
      use: 'yes',
    };
    const rules = new PrincipalRules([any]);
    assert.equal(verdict(rules, basic('x')), 'no-principal');
    assert.equal(verdict(rules, NO_CALLER), 'no-principal');
    assert.equal(verdict(rules, token({})), 'yes');
  });

  test('names the issuer where there are several', () => {
    const when = { client: 'jwt', subject: 'a*', issuer: 'idp' } as const;
    const rules = new PrincipalRules([{ when, use: 'yes' }]);
    assert.equal(verdict(rules, token({}, 'alice')), 'yes');
    assert.equal(verdict(rules, token({}, 'alice', 'other')), 'no-principal');
    assert.equal(verdict(rules, token({}, 'bob')), 'no-principal');
    assert.equal(verdict(rules, token({})), 'no-principal');
  });
});

describe('the rules of a listener', () => {
  test('the first match wins, and no match falls through to nothing', () => {
    const rules = new PrincipalRules([
      rule('basic', 'CORP\\admin-*', 'admins'),
      rule('basic', 'CORP\\*', 'users'),
      rule('none', undefined, 'guests'),
    ]);
    assert.equal(verdict(rules, basic('CORP\\admin-1')), 'admins');
    assert.equal(verdict(rules, basic('CORP\\me')), 'users');
    assert.equal(verdict(rules, NO_CALLER), 'guests');
    assert.equal(verdict(rules, basic('corp\\me')), 'no-principal');
    assert.equal(verdict(rules, basic('me')), 'no-principal');
  });

  test('a subject is nothing that a caller without a name has', () => {
    const rules = new PrincipalRules([rule(undefined, '*', 'all')]);
    assert.equal(verdict(rules, NO_CALLER), 'no-principal');
    assert.equal(verdict(rules, basic('x')), 'all');
  });

  test('that are not there say nothing; an empty list refuses everybody', () => {
    assert.equal(verdict(new PrincipalRules(undefined), basic('x')), 'no-rules');
    assert.equal(verdict(new PrincipalRules([]), basic('x')), 'no-principal');
  });
});

describe('the principal of a hop', () => {
  const use = { kind: 'use', principal: 'rule' } as const;
  const none = { kind: 'no-rules' } as const;

  for (const [route, upstream, said, expected] of [
    ['route', 'upstream', use, 'route'],
    ['route', 'upstream', none, 'route'],
    [undefined, 'upstream', use, 'rule'],
    [undefined, undefined, use, 'rule'],
    [undefined, 'upstream', none, 'upstream'],
    [undefined, undefined, none, undefined],
  ] as const) {
    test(`origin: route ${route}, upstream ${upstream}, ${said.kind}: ${expected}`, () => {
      assert.equal(originPrincipal({ route, upstream }, said), expected);
    });
  }

  for (const [parent, said, expected] of [
    ['parent', use, 'parent'],
    ['parent', none, 'parent'],
    [undefined, use, 'rule'],
    [undefined, none, undefined],
  ] as const) {
    test(`parent: its own ${parent}, ${said.kind}: ${expected}`, () => {
      assert.equal(parentPrincipal(parent, said), expected);
    });
  }
});

describe('a glob', () => {
  for (const [pattern, yes, no] of [
    ['alice', ['alice'], ['Alice', 'alice2', '', 'malice']],
    ['*', ['', 'x', '*'], []],
    ['*@CORP', ['a@CORP', '@CORP'], ['a@CORP.X', 'CORP']],
    ['CORP\\*', ['CORP\\a', 'CORP\\'], ['CORP', 'XCORP\\a']],
    ['a*b*c', ['abc', 'aXbYc', 'abbc', 'abcbc'], ['acb', 'ab', 'ac', 'abcd']],
    ['a*a', ['aa', 'aba'], ['a']],
    ['**', ['', 'x'], []],
    ['a.c', ['a.c'], ['abc']],
  ] as const) {
    test(`${pattern} matches all of a text and nothing by accident`, () => {
      const matches = globOf(pattern);
      for (const text of yes) assert.equal(matches(text), true, text);
      for (const text of no) assert.equal(matches(text), false, text);
    });
  }

  test('takes linear time for hostile patterns', () => {
    const matches = globOf(`${'*a'.repeat(100)}b`);
    assert.equal(matches('a'.repeat(10_000)), false);
  });
});
