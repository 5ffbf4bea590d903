/**
 * Which principal a caller is mapped to (config.md, "Which principal"): the rules of a listener, first
 * match wins, and what stands above and below them on each hop. Names only; what a name means is
 * decided elsewhere.
 */
import type { ClaimPatterns, PrincipalRuleConfig } from '../config/config.ts';
import { ProxyError } from '../errors.ts';
import { CERTIFICATE_FIELDS, type CertificateField } from '../identity/client-certificate.ts';
import type { JsonValue } from '../identity/strict-json.ts';
import { type Caller, subjectOf } from './caller.ts';

/** What the rules of a listener say of a caller. */
export type RuleVerdict =
  /** The listener has no rules. */
  { readonly kind: 'no-rules' } | { readonly kind: 'use'; readonly principal: string };

const NO_RULES: RuleVerdict = Object.freeze({ kind: 'no-rules' });

interface CompiledRule {
  readonly client: Caller['kind'] | undefined;
  readonly issuer: string | undefined;
  readonly claim: ClaimPatterns | undefined;
  readonly certificate: readonly (readonly [CertificateField, (text: string) => boolean])[];
  readonly subject: ((text: string) => boolean) | undefined;
  readonly verdict: RuleVerdict;
}

export class PrincipalRules {
  readonly #rules: readonly CompiledRule[] | undefined;

  constructor(rules: readonly PrincipalRuleConfig[] | undefined) {
    this.#rules = rules?.map(({ when, use }) => ({
      client: when.client,
      issuer: when.issuer,
      claim: when.claim,
      certificate: CERTIFICATE_FIELDS.flatMap((field) => {
        const pattern = when.certificate?.[field];
        return pattern === undefined ? [] : [[field, globOf(pattern)] as const];
      }),
      subject: when.subject === undefined ? undefined : globOf(when.subject),
      verdict: Object.freeze({ kind: 'use', principal: use }),
    }));
  }

  /** The first rule that matches; `no-principal` where there are rules and none does. */
  judge(caller: Caller): RuleVerdict | ProxyError {
    if (this.#rules === undefined) return NO_RULES;
    const rule = this.#rules.find((each) => matches(each, caller));
    if (rule !== undefined) return rule.verdict;
    const facts = { side: 'downstream', stage: 'identify' } as const;
    return new ProxyError('no-principal', 'no rule of the listener matches the caller', facts);
  }
}

function matches(rule: CompiledRule, caller: Caller): boolean {
  const { client, issuer, subject, claim, certificate } = rule;
  if (client !== undefined && client !== caller.kind) return false;
  if (issuer !== undefined || claim !== undefined) {
    if (caller.kind !== 'jwt') return false;
    if (issuer !== undefined && issuer !== caller.issuer) return false;
    if (claim !== undefined && !hasClaims(caller.claims, claim)) return false;
  }
  if (certificate.length > 0) {
    if (caller.kind !== 'mtls') return false;
    const { fields } = caller.certificate;
    if (!certificate.every(([field, isMatch]) => fields[field].some(isMatch))) return false;
  }
  if (subject === undefined) return true;
  const text = subjectOf(caller);
  return text !== undefined && subject(text);
}

/** All patterns have to match. Names and values are compared as they are, never converted. */
function hasClaims(value: JsonValue | undefined, patterns: ClaimPatterns): boolean {
  if (typeof value !== 'object' || value === null || isList(value)) return false;
  return Object.entries(patterns).every(([name, pattern]) => {
    const claim = Object.hasOwn(value, name) ? value[name] : undefined;
    if (typeof pattern === 'object') return hasClaims(claim, pattern);
    return isList(claim) ? claim.includes(pattern) : claim === pattern;
  });
}

/** `Array.isArray` knows no read-only lists. */
const isList = (value: JsonValue | undefined): value is readonly JsonValue[] =>
  Array.isArray(value);

/**
 * The principal towards an origin: the route's own, else the rule's, else, without rules, the
 * upstream's. Undefined: no login.
 */
export function originPrincipal(
  names: { readonly route: string | undefined; readonly upstream: string | undefined },
  verdict: RuleVerdict,
): string | undefined {
  return names.route ?? (verdict.kind === 'use' ? verdict.principal : names.upstream);
}

/** The principal towards a parent proxy: its own, else the rule's. A route's never applies there. */
export function parentPrincipal(
  parent: string | undefined,
  verdict: RuleVerdict,
): string | undefined {
  return parent ?? (verdict.kind === 'use' ? verdict.principal : undefined);
}

/** `*` stands for any text, the empty one too; everything else for itself, case-sensitive. Linear. */
export function globOf(pattern: string): (text: string) => boolean {
  const [first = '', ...parts] = pattern.split('*');
  const last = parts.pop();
  if (last === undefined) return (text) => text === pattern;
  return (text) => {
    if (text.length < first.length + last.length) return false;
    if (!text.startsWith(first) || !text.endsWith(last)) return false;
    const end = text.length - last.length;
    let at = first.length;
    for (const part of parts) {
      const found = text.indexOf(part, at);
      if (found < 0 || found + part.length > end) return false;
      at = found + part.length;
    }
    return true;
  };
}
