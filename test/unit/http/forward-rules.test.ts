/** Which targets a forward listener lets through (config.md, Forward targets). */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { parseIpAddress } from '../../../src/http/forward-addresses.ts';
import { ForwardRules, type ForwardRuleSettings } from '../../../src/http/forward-rules.ts';

const NONE: ForwardRuleSettings = {
  allow: ['*:443', '*:80'],
  direct: [],
  private: false,
  resolve: false,
  isOwn: () => false,
};

const rulesOf = (settings: Partial<ForwardRuleSettings>): ForwardRules =>
  new ForwardRules({ ...NONE, ...settings });

/** `host:port`, or `host:port=address` for what a lookup found. */
function split(text: string): { host: string; port: number; found: string } {
  const [, bracketed, plain, port, found] =
    /^(?:\[([^\]]+)\]|([^:]+)):(\d+)(?:=(.+))?$/.exec(text) ?? [];
  const host = bracketed ?? plain ?? '';
  return { host, port: Number(port), found: found ?? host };
}

/** What happens: `no` before any lookup, `denied` after it, `yes`. */
function outcome(rules: ForwardRules, text: string): string {
  const { host, port, found } = split(text);
  if (!rules.mayAsk(host, port)) return 'no';
  const address = parseIpAddress(found);
  if (address === undefined) return 'asked';
  return rules.mayDial(host, port, address) ? 'yes' : 'denied';
}

interface Rows {
  readonly settings: Partial<ForwardRuleSettings>;
  readonly yes?: readonly string[];
  /** Refused with the address found. */
  readonly denied?: readonly string[];
  /** Refused without a lookup. */
  readonly no?: readonly string[];
}

function table(title: string, { settings, ...wanted }: Rows): void {
  describe(title, () => {
    const rules = rulesOf(settings);
    for (const [verdict, targets] of Object.entries(wanted)) {
      for (const target of targets) {
        test(`${target}: ${verdict}`, () => assert.equal(outcome(rules, target), verdict));
      }
    }
  });
}

table('by default', {
  settings: {},
  yes: ['a.example:443=8.8.8.8', 'a.example:80=2606:4700::1', '8.8.8.8:80', '[2606:4700::1]:443'],
  denied: [
    'a.example:443=10.0.0.1',
    'a.example:80=127.0.0.1',
    'a.example:80=::1',
    'a.example:80=0.0.0.0',
    'a.example:80=169.254.169.254',
    'a.example:80=::ffff:127.0.0.1',
    'a.example:80=64:ff9b::10.0.0.1',
    'a.example:80=fd00:ec2::254',
    'a.example:443=192.168.1.1',
    'a.example:443=224.0.0.1',
  ],
  no: [
    'a.example:22',
    'a.example:8080',
    'a.example:3306',
    '8.8.8.8:25',
    '127.0.0.1:80',
    '0.0.0.0:80',
    '[::]:80',
    '[::1]:443',
    '[::ffff:127.0.0.1]:80',
    '[::ffff:7f00:1]:80',
    '169.254.169.254:80',
    '[fd00:ec2::254]:80',
    '100.100.100.200:80',
    '10.0.0.1:443',
    '[fc00::1]:443',
    '[fe80::1]:443',
    'localhost:80',
    'x.localhost:80',
    'metadata.google.internal:80',
    'metadata:80',
  ],
});

table('with ports and globs', {
  settings: { allow: ['*.a.example:8000-8999', 'b*.example:*', 'exact.example:22'] },
  yes: [
    'x.a.example:8000=8.8.8.8',
    'x.y.a.example:8999=8.8.8.8',
    'b.example:1=8.8.8.8',
    'bcd.example:65535=8.8.8.8',
    'b.x.example:5=8.8.8.8',
    'exact.example:22=8.8.8.8',
    // A name without a wildcard may lead anywhere.
    'exact.example:22=10.0.0.1',
    'exact.example:22=127.0.0.1',
    'exact.example:22=169.254.169.254',
  ],
  denied: ['x.a.example:8000=10.0.0.1', 'b.example:1=fe80::1'],
  no: ['a.example:8000', 'x.a.example:7999', 'x.a.example:9000', 'x.exact.example:22', '8.8.8.8:1'],
});

table('with ranges and literals', {
  settings: { allow: ['10.0.0.0/8:443', '[fc00::]/7:*', '127.0.0.1:9000', '[::1]:9000'] },
  yes: [
    '10.1.2.3:443',
    '[::ffff:10.1.2.3]:443',
    '[fd00::1]:5',
    '127.0.0.1:9000',
    '[::1]:9000',
    'a.example:443=10.1.2.3',
    'a.example:5=fd12::1',
    'localhost:9000=127.0.0.1',
    '[fd00:ec2::254]:80',
  ],
  denied: ['a.example:443=8.8.8.8', 'a.example:443=11.0.0.1', 'a.example:9000=127.0.0.2'],
  no: ['8.8.8.8:443', '10.1.2.3:80', '127.0.0.1:80', '127.0.0.2:9000', '169.254.169.254:443'],
});

table('the first match decides', {
  settings: {
    allow: ['!bad.example:*', '!10.9.0.0/16:*', '10.0.0.0/8:*', '*.example:80', '!*.x.example:443'],
  },
  yes: ['good.example:80=8.8.8.8', 'a.x.example:80=8.8.8.8', '10.8.0.1:5', 'a:5=10.1.1.1'],
  denied: [
    'a.x.example:443=8.8.8.8',
    'good.example:80=10.9.0.1',
    'good.example:443=8.8.8.8',
    'a:5=10.9.0.1',
    'a:5=8.8.8.8',
  ],
  no: ['bad.example:80', '10.9.1.1:80'],
});

table('a denial covers translated addresses', {
  settings: { allow: ['!10.0.0.0/8:*', '*:*'], private: true },
  yes: ['a.example:80=192.168.0.1', 'a.example:80=64:ff9b::192.168.0.1'],
  denied: ['a.example:80=10.0.0.1', 'a.example:80=64:ff9b::10.0.0.1', 'a:1=2002:a00:1::'],
});

table('with private: true a glob covers every address', {
  settings: { allow: ['*:80'], private: true },
  yes: ['a:80=10.0.0.1', 'localhost:80=127.0.0.1', '169.254.169.254:80', '[::1]:80'],
  no: ['10.0.0.1:443', 'localhost:443'],
});

table('an entry of direct is allowed on its port, else on 80 and 443', {
  settings: {
    allow: ['only.example:1'],
    direct: ['plain.corp', '.below.corp', 'host.corp:8443', '10.0.0.0/8', '[fd00::]/8:9000'],
  },
  yes: [
    'plain.corp:80=8.8.8.8',
    'plain.corp:443=10.0.0.1',
    'plain.corp:80=fc00::1',
    'a.below.corp:443=10.0.0.1',
    'host.corp:8443=10.0.0.1',
    '10.1.2.3:80',
    '10.1.2.3:443',
    '[fd00::1]:9000',
  ],
  denied: [
    'plain.corp:80=127.0.0.1',
    'plain.corp:80=169.254.1.1',
    'plain.corp:80=169.254.169.254',
    'plain.corp:80=fd00:ec2::254',
    'a.below.corp:80=::1',
    'host.corp:8443=0.0.0.0',
  ],
  no: [
    'plain.corp:8080',
    'host.corp:443',
    'host.corp:80',
    'below.corp:80',
    'other.corp:80',
    '10.1.2.3:8080',
    '[fd00::1]:80',
    'a.example:80',
  ],
});

table('loopback is direct only where it is named', {
  settings: { allow: ['x:1'], direct: ['localhost', '127.0.0.0/8', '[::1]', '*'] },
  yes: ['localhost:80=127.0.0.1', 'localhost:443=::1', '127.0.0.1:80', '127.9.9.9:443', '[::1]:80'],
  denied: ['a.example:80=127.0.0.1', 'x.localhost:80=127.0.0.1', 'a.example:80=10.0.0.1'],
  no: ['169.254.169.254:80', '10.0.0.1:80', '[fe80::1]:80', 'localhost:8080'],
});

table('resolve lets ranges of direct match names', {
  settings: {
    allow: ['x:1'],
    direct: ['10.0.0.0/8', '127.0.0.0/8', '0.0.0.0/0:81'],
    resolve: true,
  },
  yes: ['a.example:80=10.1.1.1', 'localhost:80=127.0.0.1', 'a.example:81=8.8.8.8'],
  denied: ['a.example:80=8.8.8.8', 'a.example:80=127.0.0.1', 'a.example:81=169.254.169.254'],
});

table('a denial is stronger than direct', {
  settings: { allow: ['!plain.corp:80', '!10.0.0.5:*', '*:443'], direct: ['plain.corp', 'b.corp'] },
  yes: ['plain.corp:443=10.0.0.1', 'b.corp:80=10.0.0.1'],
  denied: ['b.corp:80=10.0.0.5'],
  no: ['plain.corp:80'],
});

table('our own listeners are never reached', {
  settings: {
    allow: ['*:*', '127.0.0.1:*', '0.0.0.0/0:*'],
    direct: ['localhost', '127.0.0.1:3128'],
    private: true,
    isOwn: (address, port) => address === parseIpAddress('127.0.0.1') && port === 3128,
  },
  yes: ['127.0.0.1:3129', '127.0.0.2:3128'],
  denied: ['localhost:3128=127.0.0.1', 'rebound.example:3128=::ffff:127.0.0.1'],
  no: ['127.0.0.1:3128', '[::ffff:127.0.0.1]:3128'],
});

describe('through a parent, what is written is judged', () => {
  const rows: readonly (readonly [allow: string, target: string, passes: boolean])[] = [
    ['*:443', 'a.example:443', true],
    ['*:443', 'a.example:80', false],
    ['*:443', '8.8.8.8:443', true],
    ['*:443', '10.0.0.1:443', false],
    ['*:443', '127.0.0.1:443', false],
    ['*:443', '169.254.169.254:443', false],
    ['*:443', '[::ffff:127.0.0.1]:443', false],
    ['*:443', 'localhost:443', false],
    ['*:443', 'metadata.google.internal:443', false],
    ['localhost:443', 'localhost:443', true],
    ['10.0.0.0/8:443', '10.0.0.1:443', true],
    // No lookup is made, so a range says nothing about a name.
    ['10.0.0.0/8:443', 'a.example:443', false],
    ['!a.example:443', 'a.example:443', false],
  ];
  for (const [allow, target, passes] of rows) {
    test(`${target} with ${allow}: ${passes}`, () => {
      const { host, port } = split(target);
      assert.equal(rulesOf({ allow: [allow] }).mayPass(host, port), passes);
    });
  }

  test('an entry of direct is allowed there too, on its ports', () => {
    const rules = rulesOf({ allow: ['x:1'], direct: ['a.corp', '.corp'] });
    assert.deepEqual(
      ['a.corp:80', 'b.corp:443', 'a.corp:81', 'b.example:80'].map((text) => {
        const { host, port } = split(text);
        return rules.mayPass(host, port);
      }),
      [true, true, false, false],
    );
  });
});

describe('the no-proxy list', () => {
  const rows: readonly (readonly [entry: string, target: string, direct: boolean])[] = [
    // Names.
    ['a.example', 'a.example:80', true],
    ['a.example', 'a.example:12345', true],
    ['A.Example', 'a.example:80', true],
    ['a.example.', 'a.example:80', true],
    ['a.example', 'b.a.example:80', false],
    ['a.example', 'xa.example:80', false],
    ['a.example', 'a.example.org:80', false],
    ['a', 'a:80', true],
    ['a', 'a.b:80', false],
    ['localhost', 'localhost:80', true],
    ['localhost', 'x.localhost:80', false],
    ['localhost', '127.0.0.1:80', false],
    ['a_b.example', 'a_b.example:80', true],
    ['bücher.example', 'xn--bcher-kva.example:80', true],
    ['xn--bcher-kva.example', 'xn--bcher-kva.example:80', true],
    // Suffixes.
    ['.example', 'a.example:80', true],
    ['.example', 'b.a.example:80', true],
    ['.example', 'example:80', false],
    ['.example', 'xexample:80', false],
    ['.Example', 'a.example:80', true],
    ['*.example', 'a.example:80', true],
    ['*.example', 'b.a.example:80', true],
    ['*.example', 'example:80', false],
    ['.svc.cluster.local', 'api.ns.svc.cluster.local:443', true],
    ['.svc.cluster.local', 'svc.cluster.local:443', false],
    ['.svc.cluster.local', 'svc.cluster.local.example:443', false],
    // Globs.
    ['*', 'a.example:80', true],
    ['*', '8.8.8.8:80', true],
    ['*', '::1:80', true],
    ['a*.example', 'abc.example:80', true],
    ['a*.example', 'a.example:80', true],
    ['a*.example', 'ba.example:80', false],
    ['*a*b*', 'xaxbx:80', true],
    ['*a*b*', 'xbxax:80', false],
    // Ports.
    ['a.example:8443', 'a.example:8443', true],
    ['a.example:8443', 'a.example:443', false],
    ['.example:8443', 'a.example:8443', true],
    ['.example:8443', 'a.example:80', false],
    ['10.0.0.0/8:8443', '10.1.1.1:8443', true],
    ['10.0.0.0/8:8443', '10.1.1.1:80', false],
    ['[::1]:8443', '::1:8443', true],
    ['[::1]:8443', '::1:80', false],
    // Literals and ranges.
    ['10.0.0.1', '10.0.0.1:80', true],
    ['10.0.0.1', '10.0.0.2:80', false],
    ['10.0.0.0/8', '10.255.255.255:80', true],
    ['10.0.0.0/8', '11.0.0.0:80', false],
    ['10.5.5.5/8', '10.1.1.1:80', true],
    ['10.0.0.0/8', '::ffff:10.0.0.1:80', true],
    ['10.0.0.0/8', '::ffff:a00:1:80', true],
    ['10.0.0.0/8', 'ten.example:80', false],
    ['192.168.1.0/24', '192.168.1.77:80', true],
    ['192.168.1.0/24', '192.168.2.77:80', false],
    ['192.168.1.4/30', '192.168.1.7:80', true],
    ['192.168.1.4/30', '192.168.1.8:80', false],
    ['0.0.0.0/0', '8.8.8.8:80', true],
    ['0.0.0.0/0', '2606:4700::1:80', false],
    ['127.1', '127.0.0.1:80', true],
    ['::1', '::1:80', true],
    ['::1', '0:0:0:0:0:0:0:1:80', true],
    ['[::1]', '::1:80', true],
    ['::1', '::2:80', false],
    ['fc00::/7', 'fd12:3456::1:80', true],
    ['fc00::/7', 'fe00::1:80', false],
    ['fe80::/10', 'fe80::1:80', true],
    ['::ffff:10.0.0.0/104', '10.1.1.1:80', true],
    ['fd00::', 'fd00:0:0::0:80', true],
  ];
  assert.ok(rows.length >= 60);
  for (const [entry, target, direct] of rows) {
    test(`${entry} ${direct ? 'names' : 'does not name'} ${target}`, () => {
      const colon = target.lastIndexOf(':');
      const host = target.slice(0, colon);
      const rules = rulesOf({ direct: [entry] });
      assert.equal(rules.isDirect(host, Number(target.slice(colon + 1))), direct);
    });
  }

  test('a range matches what a name resolves to with resolve only', () => {
    const address = parseIpAddress('10.1.1.1');
    const settings = { direct: ['10.0.0.0/8'] };
    assert.ok(!rulesOf(settings).isDirect('a.example', 80, address));
    assert.ok(rulesOf({ ...settings, resolve: true }).isDirect('a.example', 80, address));
    assert.ok(!rulesOf(settings).needsAddresses);
    assert.ok(rulesOf({ ...settings, resolve: true }).needsAddresses);
    assert.ok(!rulesOf({ direct: ['a.example'], resolve: true }).needsAddresses);
  });
});

test('an entry that the file could not have is refused', () => {
  assert.throws(() => rulesOf({ allow: ['nonsense'] }), /nonsense/);
  assert.throws(() => rulesOf({ direct: ['a b'] }), /a b/);
});

test('a glob of many stars is matched in time', () => {
  const rules = rulesOf({ direct: [`${'a*'.repeat(31)}b`] });
  assert.ok(!rules.isDirect('a'.repeat(253), 80));
});
