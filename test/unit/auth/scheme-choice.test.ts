import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import {
  chooseMechanism,
  type ConfiguredScheme,
  type Mechanism,
} from '../../../src/auth/scheme-choice.ts';

const SCHEMES: Readonly<Record<string, readonly ConfiguredScheme[]>> = {
  'negotiate, ntlm': ['negotiate', 'ntlm'],
  'ntlm, negotiate': ['ntlm', 'negotiate'],
  negotiate: ['negotiate'],
  ntlm: ['ntlm'],
  'basic, digest': ['basic', 'digest'],
  'negotiate, basic': ['negotiate', 'basic'],
  nothing: [],
};
const OFFERS: Readonly<Record<string, ReadonlySet<string> | undefined>> = {
  unknown: undefined,
  both: new Set(['negotiate', 'ntlm']),
  negotiate: new Set(['negotiate', 'basic']),
  ntlm: new Set(['ntlm', 'basic']),
  neither: new Set(['basic', 'digest']),
};
const ABILITIES = {
  kerberos: { kerberos: true, ntlm: false, password: false },
  ntlm: { kerberos: false, ntlm: true, password: false },
  combined: { kerberos: true, ntlm: true, password: true },
} as const;

const K = 'kerberos';
const I = 'ntlm-in-negotiate';
const N = 'ntlm';
const B = 'basic';
const D = 'digest';

/** Row by row: schemes, offer, then the whole order for kerberos, ntlm, combined when all fail here. */
const TABLE: readonly (readonly [string, string, Mechanism[], Mechanism[], Mechanism[]])[] = [
  ['negotiate, ntlm', 'unknown', [K], [I, N], [K, I, N]],
  ['negotiate, ntlm', 'both', [K], [I, N], [K, I, N]],
  ['negotiate, ntlm', 'negotiate', [K], [I], [K, I]],
  ['negotiate, ntlm', 'ntlm', [], [N], [N]],
  ['negotiate, ntlm', 'neither', [], [], []],
  ['ntlm, negotiate', 'unknown', [K], [N, I], [N, K, I]],
  ['ntlm, negotiate', 'both', [K], [N, I], [N, K, I]],
  ['ntlm, negotiate', 'negotiate', [K], [I], [K, I]],
  ['ntlm, negotiate', 'ntlm', [], [N], [N]],
  ['ntlm, negotiate', 'neither', [], [], []],
  ['negotiate', 'unknown', [K], [I], [K, I]],
  ['negotiate', 'both', [K], [I], [K, I]],
  ['negotiate', 'negotiate', [K], [I], [K, I]],
  ['negotiate', 'ntlm', [], [], []],
  ['negotiate', 'neither', [], [], []],
  ['ntlm', 'unknown', [], [N], [N]],
  ['ntlm', 'both', [], [N], [N]],
  ['ntlm', 'negotiate', [], [], []],
  ['ntlm', 'ntlm', [], [N], [N]],
  ['ntlm', 'neither', [], [], []],
  ['basic, digest', 'unknown', [], [], [B, D]],
  ['basic, digest', 'neither', [], [], [B, D]],
  ['basic, digest', 'both', [], [], []],
  ['negotiate, basic', 'unknown', [K], [I], [K, I, B]],
  ['negotiate, basic', 'neither', [], [], [B]],
  ['negotiate, basic', 'ntlm', [], [], [B]],
  ['nothing', 'both', [], [], []],
];

interface Case {
  readonly schemes: string;
  readonly offer: string;
  readonly able: keyof typeof ABILITIES;
}

function choose(
  { schemes, offer, able }: Case,
  failedLocally: ReadonlySet<Mechanism>,
  sent: ReadonlySet<Mechanism> = new Set(),
): Mechanism | undefined {
  return chooseMechanism({
    schemes: SCHEMES[schemes] ?? assert.fail(schemes),
    offered: OFFERS[offer],
    can: ABILITIES[able],
    failedLocally,
    sent,
  });
}

/** What is tried one after the other, when each fails before a token went out. */
function order(facts: Case): Mechanism[] {
  const failed = new Set<Mechanism>();
  for (;;) {
    const next = choose(facts, failed);
    if (next === undefined) return [...failed];
    assert.ok(!failed.has(next), `${next} twice`);
    failed.add(next);
  }
}

describe('the choice of a mechanism', () => {
  for (const [schemes, offer, ...rows] of TABLE) {
    for (const [index, able] of (['kerberos', 'ntlm', 'combined'] as const).entries()) {
      const wanted = rows[index] ?? [];
      test(`[${schemes}], offered ${offer}, ${able}: ${wanted.join(', ') || 'none'}`, () => {
        assert.deepEqual(order({ schemes, offer, able }), wanted);
      });

      test(`R29 [${schemes}], offered ${offer}, ${able}: nothing follows a token that was sent`, () => {
        for (const [at, mechanism] of wanted.entries()) {
          const failed = new Set(wanted.slice(0, at));
          assert.equal(choose({ schemes, offer, able }, failed), mechanism);
          assert.equal(choose({ schemes, offer, able }, failed, new Set([mechanism])), undefined);
        }
      });
    }
  }

  test('R29 a token that was sent blind makes room when the hop did not offer its scheme', () => {
    const sent = new Set<Mechanism>(['kerberos']);
    const facts = { schemes: 'negotiate, ntlm', able: 'combined' } as const;
    assert.equal(choose({ ...facts, offer: 'ntlm' }, new Set(), sent), 'ntlm');
    assert.equal(choose({ ...facts, offer: 'both' }, new Set(), sent), undefined);
  });

  test('R29 a list is a limit: what it does not name is not used, whatever is offered', () => {
    for (const able of ['kerberos', 'ntlm', 'combined'] as const) {
      const tried = order({ schemes: 'negotiate', offer: 'both', able });
      assert.ok(!tried.includes('ntlm'), able);
    }
  });
});
