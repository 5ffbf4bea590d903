/** `explain` names what is wrong, at real origins and through real parents. */
import assert from 'node:assert/strict';
import { mkdtempSync } from 'node:fs';
import { join } from 'node:path';
import { suite, test } from 'node:test';
import { type Explained, explained } from '../support/explaining.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { kdcFile, writeKrb5Conf } from './kdc.ts';
import { labKeytab, openGate, useKerberosLab } from './kerberos-world.ts';
import { LAB_SECRETS } from './lab-daemon.ts';
import { type LabFacts, type LabPorts, useLab } from './lab.ts';
import { requireCommand } from './requires.ts';
import { startSkewedKdc } from './skewed-kdc.ts';

/** A login: at an origin or at a parent, by which principal. */
interface Login {
  readonly server: keyof LabPorts;
  readonly principal: 'alice' | 'bob' | 'wrong' | 'keytab' | 'tickets' | 'wrong-tickets' | 'empty';
  readonly schemes: string;
  /** Further keys of `auth`. */
  readonly more?: string;
}

interface Setting {
  readonly origin?: Login;
  readonly parent?: Login;
  readonly krb5Conf?: string;
  /** Default: http. */
  readonly scheme?: 'https';
}

/** Asks for `/echo` of the origin, as a forward listener with that origin and parent does. */
function ask(lab: LabFacts, setting: Setting): Promise<Explained> {
  const { origin, parent, krb5Conf = kdcFile.krb5Conf(join(lab.folder, 'kdc')) } = setting;
  const isTls = setting.scheme === 'https';
  const port = lab.ports[origin?.server ?? (isTls ? 'apacheOpenTls' : 'apacheOpen')];
  const url = `${setting.scheme ?? 'http'}://localhost:${port}`;
  const via = parent === undefined ? '' : ', via: corp';
  const tls = isTls ? `, tls: { ca: '${lab.certificate}' }` : '';
  const auth = origin === undefined ? '' : `, ${authOf(origin)}`;
  const corp =
    parent &&
    `  corp: { proxy: 'http://localhost:${lab.ports[parent.server]}', ${authOf(parent)} }`;
  const config = `version: 1
kerberos: { config: '${krb5Conf}' }
principals:
  alice: { username: 'LAB\\alice', password: { env: ALICE } }
  bob: { username: 'LAB\\bob', password: { env: BOB } }
  wrong: { username: 'LAB\\alice', password: { env: WRONG } }
  keytab: { kerberos: alice@LAB.TEST, keytab: '${labKeytab(lab, 'alice')}' }
  tickets: { kerberos: bob@LAB.TEST, password: { env: BOB } }
  wrong-tickets: { kerberos: bob@LAB.TEST, password: { env: WRONG } }
  empty: { kerberos: bob@LAB.TEST, ccache: 'FILE:${temporaryFolder()}/no-such-cache' }
upstreams:
  target: { url: '${url}'${via}${auth}${tls} }
${corp ?? ''}
listeners: [{ name: egress, listen: 127.0.0.1:0, mode: forward }]
`;
  return explained({ config, secrets: LAB_SECRETS, url: `${url}/echo` });
}

const authOf = ({ principal, schemes, more = '' }: Login): string =>
  `auth: { principal: ${principal}, schemes: [${schemes}]${more} }`;

/** Where a login is made: at the origin, or at a parent before it. */
type Place = (login: Login) => Setting;

const AT_ORIGIN: Place = (origin) => ({ origin });
const AT_PARENT: Place = (parent) => ({ parent });
const AT_TUNNEL: Place = (parent) => ({ parent, scheme: 'https' });

const KERBEROS_PLACES = [
  ['origin', AT_ORIGIN, 'apacheNegotiate'],
  ['parent', AT_PARENT, 'squidNegotiate'],
  ['parent', AT_TUNNEL, 'squidNegotiate'],
] as const;

function assertError(
  { report, text }: Explained,
  expected: { code: string; hop: string; likely?: string },
): void {
  const { error } = report;
  assert.deepEqual(
    [report.ok, error?.code, error?.hop, error?.likely],
    [false, expected.code, expected.hop, expected.likely ?? null],
    text,
  );
  assert.ok((error?.advice.length ?? 0) > 0, text);
}

suite('explain names', () => {
  for (const [hop, place, server] of [
    ['origin', AT_ORIGIN, 'apacheNtlm'],
    ['origin', AT_ORIGIN, 'frontEnd'],
    ['parent', AT_PARENT, 'squidNtlm'],
    ['parent', AT_TUNNEL, 'squidNtlm'],
  ] as const) {
    const form = place === AT_TUNNEL ? 'CONNECT' : 'a request';
    test(`a wrong password for NTLM at ${server}, for ${form}`, async (t) => {
      const lab = await useLab(t, 'apache', 'squid', 'front-end');
      if (lab === undefined) return;
      const login = { server, principal: 'wrong', schemes: 'ntlm' } as const;
      assertError(await ask(lab, place(login)), { code: 'credential-rejected', hop });
    });
  }

  for (const [hop, place, server] of KERBEROS_PLACES) {
    const where = `at ${server}, for ${place === AT_TUNNEL ? 'CONNECT' : 'a request'}`;
    const kerberos = { server, schemes: 'negotiate' } as const;

    test(`a wrong password for Kerberos ${where}`, async (t) => {
      const lab = await useKerberosLab(t, 'squid');
      if (lab === undefined) return;
      const told = await ask(lab, place({ ...kerberos, principal: 'wrong-tickets' }));
      assertError(told, { code: 'credential-rejected', hop });
      assert.match(told.report.error?.meaning ?? '', /^the KDC refused the password/);
    });

    test(`an unknown SPN ${where}`, async (t) => {
      const lab = await useKerberosLab(t, 'squid');
      if (lab === undefined) return;
      const login = {
        ...kerberos,
        principal: 'keytab',
        more: ', spn: HTTP/nobody.lab.test',
      } as const;
      const told = await ask(lab, place(login));
      assertError(told, { code: 'spn-unknown', hop });
      assert.match(
        told.text,
        /login by Kerberos in Negotiate as keytab, SPN HTTP\/nobody\.lab\.test,/,
      );
      assert.match(told.text, /Server HTTP\/nobody\.lab\.test@LAB\.TEST not found/);
    });

    test(`a KDC that is not there ${where}`, async (t) => {
      const lab = await useKerberosLab(t, 'squid');
      if (lab === undefined) return;
      const krb5Conf = join(mkdtempSync(join(temporaryFolder(), 'krb5-')), 'krb5.conf');
      writeKrb5Conf(krb5Conf, { port: 1 });
      for (const principal of ['keytab', 'tickets'] as const) {
        const told = await ask(lab, { ...place({ ...kerberos, principal }), krb5Conf });
        assertError(told, { code: 'kdc-unreachable', hop });
      }
    });

    test(`a KDC that accepts and is silent ${where}`, async (t) => {
      const lab = await useKerberosLab(t, 'squid');
      if (lab === undefined) return;
      await using gate = await openGate(lab.ports.kdc);
      gate.isSilent = true;
      const krb5Conf = join(mkdtempSync(join(temporaryFolder(), 'krb5-')), 'krb5.conf');
      writeKrb5Conf(krb5Conf, { port: gate.port });
      const told = await ask(lab, { ...place({ ...kerberos, principal: 'keytab' }), krb5Conf });
      assertError(told, { code: 'kdc-timeout', hop });
    });

    test(`a cache without tickets ${where}`, async (t) => {
      const lab = await useKerberosLab(t, 'squid');
      if (lab === undefined) return;
      const told = await ask(lab, place({ ...kerberos, principal: 'empty' }));
      assertError(told, { code: 'credential-missing', hop });
    });

    test(`a clock that is not the KDC's ${where}`, async (t) => {
      const lab = await useKerberosLab(t, 'squid');
      if (lab === undefined || !requireCommand(t, 'faketime')) return;
      await using kdc = await startSkewedKdc(lab);
      for (const principal of ['keytab', 'tickets'] as const) {
        const setting = place({ ...kerberos, principal });
        assertError(await ask(lab, { ...setting, krb5Conf: kdc.strict }), {
          code: 'clock-skew',
          hop,
        });
      }
    });
  }

  test("a server's clock that is not the KDC's, by the server's own word", async (t) => {
    const lab = await useKerberosLab(t);
    if (lab === undefined || !requireCommand(t, 'faketime')) return;
    await using kdc = await startSkewedKdc(lab);
    const login = { server: 'apacheNegotiate', principal: 'keytab', schemes: 'negotiate' } as const;
    const told = await ask(lab, { origin: login, krb5Conf: kdc.following });
    const likely = 'clock-skew';
    assertError(told, { code: 'credential-rejected', hop: 'origin', likely });
    assert.match(told.text, /^credential-rejected \(clock-skew\) at the origin: /m);
  });

  for (const [principal, schemes] of [
    ['alice', 'negotiate'],
    ['tickets', 'negotiate'],
  ] as const) {
    test(`an NTLM origin that ${principal} wants to log in to by ${schemes}`, async (t) => {
      const lab = await useKerberosLab(t, 'front-end');
      if (lab === undefined) return;
      // The front end stands for a server without Negotiate.
      const told = await ask(lab, { origin: { server: 'frontEnd', principal, schemes } });
      assertError(told, { code: 'no-common-scheme', hop: 'origin' });
      assert.match(told.text, /401, offers NTLM\n/);
    });
  }

  for (const [form, place] of [
    ['a request', AT_PARENT],
    ['CONNECT', AT_TUNNEL],
  ] as const) {
    test(`a parent that offers Basic alone, for ${form}`, async (t) => {
      const lab = await useKerberosLab(t, 'squid');
      if (lab === undefined) return;
      const login = { server: 'squidBasic', principal: 'bob', schemes: 'negotiate, ntlm' } as const;
      const told = await ask(lab, place(login));
      const likely = 'no-common-scheme';
      assertError(told, { code: 'parent-auth', hop: 'parent', likely });
      assert.match(told.text, /407, offers Basic\n/);
    });
  }
});

suite('explain advises', () => {
  for (const [place, server] of [
    [AT_ORIGIN, 'apacheNegotiate'],
    [AT_PARENT, 'squidAll'],
    [AT_TUNNEL, 'squidAll'],
  ] as const) {
    const form = place === AT_TUNNEL ? 'CONNECT' : 'a request';
    test(`NTLM before Negotiate where that takes Kerberos alone: ${server}, for ${form}`, async (t) => {
      const lab = await useKerberosLab(t, 'squid');
      if (lab === undefined) return;
      const { report, text } = await ask(
        lab,
        place({ server, principal: 'bob', schemes: 'negotiate, ntlm' }),
      );
      assert.equal(report.ok, false, text);
      assert.match(report.error?.advice[0] ?? '', /or put ntlm before negotiate/, text);
    });
  }
});

suite('explain shows', () => {
  test('an NTLM parent and an NTLM origin on one request', async (t) => {
    const lab = await useLab(t, 'squid', 'front-end');
    if (lab === undefined) return;
    const { report, text, logins } = await ask(lab, {
      origin: { server: 'frontEnd', principal: 'alice', schemes: 'ntlm' },
      parent: { server: 'squidNtlm', principal: 'bob', schemes: 'ntlm' },
    });
    assert.deepEqual([report.ok, report.status], [true, 200], text);
    assert.deepEqual(
      logins.map(({ hop, principal, mechanism }) => [hop, principal, mechanism]),
      [
        ['parent', 'bob', 'ntlm'],
        ['origin', 'alice', 'ntlm'],
      ],
    );
  });

  test('a Basic parent, without the length of the password', async (t) => {
    const lab = await useLab(t, 'squid');
    if (lab === undefined) return;
    const more = ', dangerousPlaintextBasic: true';
    const parent = { server: 'squidBasic', principal: 'bob', schemes: 'basic', more } as const;
    const { report, text } = await ask(lab, { parent });
    assert.deepEqual([report.ok, report.status], [true, 200], text);
    assert.match(text, /parent: login by Basic as bob, channel binding none\n/);
    assert.match(text, /\n {4}Proxy-Authorization: Basic \(user name and password\)\n/);
    const refused = await ask(lab, { parent: { ...parent, principal: 'wrong' } });
    assertError(refused, { code: 'credential-rejected', hop: 'parent' });
  });

  test('a Kerberos parent before a TLS origin that takes channel bindings', async (t) => {
    const lab = await useKerberosLab(t, 'squid', 'channel-binding');
    if (lab === undefined) return;
    const { report, text, logins } = await ask(lab, {
      origin: {
        server: 'apacheNtlmTls',
        principal: 'alice',
        schemes: 'ntlm',
        more: ', channelBinding: required',
      },
      parent: { server: 'squidNegotiate', principal: 'tickets', schemes: 'negotiate' },
      scheme: 'https',
    });
    assert.deepEqual([report.ok, report.status], [true, 200], text);
    assert.deepEqual(
      logins.map(({ hop, mechanism, spn, channelBinding }) => [
        hop,
        mechanism,
        spn,
        channelBinding,
      ]),
      [
        ['parent', 'kerberos', 'HTTP/localhost', 'none'],
        ['origin', 'ntlm', 'HTTP/localhost', 'sent'],
      ],
    );
  });
});
