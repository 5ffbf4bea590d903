/**
 * Web pages of others in a real browser: none of them reaches what is behind a loopback listener
 * without a client check, nor the admin listener (hostile rows D19, D20; config.md, "Web pages must
 * not use us"). Every page by every means is also shown to succeed where the rule is off, so that
 * what fails here fails because of the rule. No key lets in a sandboxed frame, a GET without Origin
 * or, at the admin listener, another origin: these succeed against an upstream without sidekerb.
 */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { isPresent, requireCommand } from '../lab/requires.ts';
import type { RequestRecord } from '../support/upstream-journal.ts';
import { until } from '../support/waiting.ts';
import {
  ALL_MEANS,
  type Attacker,
  AttackerNet,
  ATTACKERS,
  attack,
  BOUNCED_MEANS,
  learned,
  MEANS,
  type Means,
  NAMELESS_MEANS,
  PLAIN_NAME,
  plainName,
  type Plan,
  READING_MEANS,
} from './attacker.ts';
import { BROWSER_DEADLINE_MS, CHROMIUM, Chromium } from './chromium.ts';
import { executedMeans, planAt, SECRET, startTalkativeUpstream, USER, Victim } from './victim.ts';

interface Surroundings {
  readonly net: AttackerNet;
  readonly browser: Chromium;
}

const without = (means: readonly Means[], ...others: (readonly Means[])[]): Means[] =>
  means.filter((name) => !others.some((list) => list.includes(name)));

/** A page that is served through the listener itself. */
function ownPage(host: string): Attacker {
  const origin = (port: number): string => `http://${host}:${port}`;
  return { name: `the own page under ${host}`, origin, target: origin, framed: false };
}

describe('web pages in Chromium', () => {
  let shared: Surroundings | undefined;

  // One browser for all tests: each of them has tabs, servers and a daemon of its own.
  before(async () => {
    if (!isPresent(CHROMIUM)) return;
    const net = await AttackerNet.start();
    shared = { net, browser: await Chromium.start(net.resolverRules) };
  });

  after(async () => {
    await shared?.browser[Symbol.asyncDispose]();
    await shared?.net[Symbol.asyncDispose]();
  });

  const browserTest = (title: string, run: (around: Surroundings) => Promise<void>): void => {
    test(title, async (t) => {
      if (!requireCommand(t, CHROMIUM) || shared === undefined) return;
      await run(shared);
    });
  };

  for (const attacker of Object.values(ATTACKERS)) {
    browserTest(`D19 ${attacker.name} gets nothing through a listener`, async (around) => {
      await using victim = await Victim.start();
      await using page = await around.net.open(around.browser, attacker, victim.port);
      const reads = await attack(page, attacker, planAt(attacker.target(victim.port), ALL_MEANS));
      const refused = attacker === ATTACKERS.rebound ? 421 : 403;
      for (const [name, statuses] of await victim.loggedStatuses(ALL_MEANS)) {
        assert.deepEqual([...statuses], [refused], name);
      }
      assert.deepEqual(reads, {});
      assert.deepEqual(victim.upstream.journal.sockets, []);
    });

    browserTest(
      `D20 ${attacker.name} neither reads nor changes by the admin listener`,
      async (around) => {
        await using victim = await Victim.start();
        await victim.daemon.ask('GET /warm-up');
        await using page = await around.net.open(around.browser, attacker, victim.adminPort);
        const plan = adminPlan(attacker.target(victim.adminPort));
        const reads = await attack(page, attacker, plan);
        await victim.adminRefused(plan.length);
        assert.deepEqual(reads, {});
        assert.equal(victim.upstream.openSockets, 1);
        assert.ok(!victim.daemon.logText.includes('"audit":true'));
        assert.equal((await victim.daemon.ask('GET /same')).status, 200);
        assert.equal(victim.upstream.journal.sockets.length, 1);
      },
    );

    browserTest(`${attacker.name} succeeds where no rule stops it`, async (around) => {
      await using upstream = await startTalkativeUpstream('none');
      await using page = await around.net.open(around.browser, attacker, upstream.port);
      await attack(page, attacker, planAt(attacker.target(upstream.port), ALL_MEANS));
      await until(
        () => executedMeans(upstream.requests).length === ALL_MEANS.length,
        'every means at the upstream',
        BROWSER_DEADLINE_MS,
      );
      const reads = await learned(page, READING_MEANS);
      assert.equal(reads['fetch-get'], SECRET);
    });
  }

  for (const attacker of [ATTACKERS.port, ATTACKERS.site]) {
    browserTest(`allowOrigins lets in ${attacker.name}, where Origin names it`, async (around) => {
      const origin = attacker.origin(0, around.net.pagePort);
      await using victim = await Victim.start({ route: `allowOrigins: ['${origin}']` });
      const refused = new Set<Means>([...NAMELESS_MEANS, 'form-bounced']);
      // Between two origins of the attacker the bounce makes the third a stranger.
      if (attacker === ATTACKERS.site) refused.add('fetch-post-bounced');
      await expectServed(around, victim, { attacker, served: without(ALL_MEANS, [...refused]) });
      for (const [name, statuses] of await victim.loggedStatuses([...refused])) {
        assert.deepEqual([...statuses], [403], name);
      }
    });
  }

  browserTest('hosts lets in a page under that name, as its own origin', async (around) => {
    await using victim = await Victim.start({ listener: 'hosts: [evil.test]' });
    const served = without(ALL_MEANS, without(BOUNCED_MEANS, ['image-bounced']));
    await expectServed(around, victim, { attacker: ATTACKERS.rebound, served });
  });

  browserTest(
    'admin.hosts lets in a page under that name, with the admin field',
    async (around) => {
      await using victim = await Victim.start({ admin: 'hosts: [evil.test]' });
      await victim.daemon.ask('GET /warm-up');
      const attacker = ATTACKERS.rebound;
      await using page = await around.net.open(around.browser, attacker, victim.adminPort);
      const base = attacker.target(victim.adminPort);
      const withoutField = without(POSTING_MEANS, ['fetch-post-admin-field']);
      const drain = `${base}/api/pools/origin/drain`;
      await attack(
        page,
        attacker,
        withoutField.map((name) => [name, drain]),
      );
      await victim.adminRefused(withoutField.length);
      assert.equal(victim.upstream.openSockets, 1);
      const reads = await attack(page, attacker, [
        ['fetch-get', `${base}/api/status`],
        ['fetch-post-admin-field', drain],
      ]);
      assert.match(reads['fetch-get'] ?? '', /"version":"0\.0\.0-test"/);
      assert.deepEqual(JSON.parse(reads['fetch-post-admin-field'] ?? ''), {
        action: 'drain',
        name: 'origin',
      });
      await victim.upstream.saw(
        () => victim.upstream.openSockets === 0,
        'the drained socket closed',
      );
    },
  );

  for (const attacker of [ATTACKERS.port, ATTACKERS.site]) {
    browserTest(
      `a link on ${attacker.name} leads to a document, a form leads nowhere`,
      async (around) => {
        await using victim = await Victim.start();
        const base = attacker.target(victim.port);
        await using page = await around.net.open(around.browser, attacker, victim.port);
        await page.loads(() => page.evaluate(`submit('${base}/try/form-text', 'POST')`));
        assert.match(await page.text(), /web-page-refused/);
        // The browser may ask for the icon of the server that it is at now.
        const targets = victim.upstream.requests.map(({ target }) => target);
        assert.ok(
          targets.every((target) => target === '/favicon.ico'),
          targets.join(),
        );
        await page.type(around.net.pageUrl(attacker, victim.port));
        await page.loads(() => page.evaluate(`follow('${base}/own/document')`));
        assert.equal(await page.text(), SECRET);
        // From there on the page is the listener's own, whoever led to it.
        const read = await page.evaluate(
          `fetch('/own/again', { method: 'PUT' }).then((r) => r.text())`,
        );
        assert.equal(read, SECRET);
      },
    );

    browserTest(
      `the status page opens when typed and by a link on ${attacker.name}`,
      async (around) => {
        await using victim = await Victim.start();
        const base = attacker.target(victim.adminPort);
        await using page = await around.browser.open(`${base}/`);
        assert.match(await page.text(), /Lockout guard/);
        await page.type(around.net.pageUrl(attacker, victim.port));
        await page.loads(() => page.evaluate(`submit('${base}/', 'POST')`));
        assert.doesNotMatch(await page.text(), /Lockout guard/);
        await page.type(around.net.pageUrl(attacker, victim.port));
        await page.loads(() => page.evaluate(`follow('${base}/')`));
        assert.match(await page.text(), /Lockout guard/);
      },
    );
  }

  browserTest('a link to a rebound name leads to no document', async (around) => {
    await using victim = await Victim.start();
    const attacker = ATTACKERS.rebound;
    await using page = await around.net.open(around.browser, attacker, victim.port);
    await page.loads(() => page.evaluate(`follow('${attacker.target(victim.port)}/own/document')`));
    assert.match(await page.text(), /misdirected/);
    assert.deepEqual(victim.upstream.journal.sockets, []);
  });

  browserTest('D19 no other spelling of this machine lets a page in', async (around) => {
    await using victim = await Victim.start();
    await using page = await around.net.open(around.browser, ATTACKERS.site, victim.port);
    const reads = await attack(page, ATTACKERS.site, spelledPlan(victim.port));
    await victim.loggedStatuses(SPELLED_MEANS);
    assert.deepEqual(reads, {});
    assert.deepEqual(victim.upstream.journal.sockets, []);
    await using upstream = await startTalkativeUpstream('none');
    await attack(page, ATTACKERS.site, spelledPlan(upstream.port));
    for (const host of SPELLINGS) {
      const arrived = upstream.requests.filter(
        (request) => hostOf(request) === `${host}:${upstream.port}`,
      );
      assert.deepEqual(new Set(executedMeans(arrived)), new Set(SPELLED_MEANS), host);
    }
  });

  // Browsers send Sec-Fetch-* to https, localhost and loopback addresses only, so at any other name
  // a GET without Origin looks like that of a program.
  browserTest(
    'at a name of its own a plain listener refuses all that Origin shows',
    async (around) => {
      await using victim = await Victim.start({ listener: `hosts: [${PLAIN_NAME}]` });
      const attacker = { ...ATTACKERS.site, target: plainName };
      await using page = await around.net.open(around.browser, attacker, victim.port);
      await attack(page, attacker, planAt(plainName(victim.port), ALL_MEANS));
      const refused = without(ALL_MEANS, NAMELESS_MEANS);
      for (const [name, statuses] of await victim.loggedStatuses(refused)) {
        assert.deepEqual([...statuses], [403], name);
      }
      await assertServed(victim, without(ALL_MEANS, refused));
    },
  );

  for (const host of ['127.0.0.1', 'localhost']) {
    browserTest(
      `a page served through the listener as ${host} may do everything`,
      async (around) => {
        await using victim = await Victim.start();
        const attacker = ownPage(host);
        const base = attacker.target(victim.port);
        await using page = await around.browser.open(`${base}/own/page`);
        const served = without(ALL_MEANS, BOUNCED_MEANS);
        await attack(page, attacker, planAt(base, served));
        await assertServed(victim, served);
        await learned(page, without(READING_MEANS, BOUNCED_MEANS));
      },
    );
  }
});

const POSTING_MEANS = ALL_MEANS.filter((name) => MEANS[name] === 'POST');

/** Every means once against what it could read, and by POST against what changes something. */
function adminPlan(base: string): Plan {
  return [
    ...ALL_MEANS.map((name) => [name, `${base}/api/status`] as const),
    ...POSTING_MEANS.map((name) => [name, `${base}/api/pools/origin/drain`] as const),
    ...POSTING_MEANS.map((name) => [name, `${base}/api/principals/alice/flush`] as const),
  ];
}

/** Exactly these means got through, each of them as the user of the daemon. */
async function assertServed(victim: Victim, served: readonly Means[]): Promise<void> {
  await until(
    () => executedMeans(victim.upstream.requests, USER).length >= served.length,
    `at the upstream: ${served.join(', ')}`,
    BROWSER_DEADLINE_MS,
  );
  assert.deepEqual(executedMeans(victim.upstream.requests, USER), served);
}

/** Of all means of the attacker exactly these succeed, and tell the page what they can tell. */
async function expectServed(
  { net, browser }: Surroundings,
  victim: Victim,
  { attacker, served }: { attacker: Attacker; served: readonly Means[] },
): Promise<void> {
  await using page = await net.open(browser, attacker, victim.port);
  await attack(page, attacker, planAt(attacker.target(victim.port), ALL_MEANS));
  await assertServed(victim, served);
  await learned(page, without(READING_MEANS, without(ALL_MEANS, served)));
}

const SPELLINGS = ['0.0.0.0', 'any.localhost', 'localhost.', 'localhost'] as const;
const SPELLED_MEANS = [
  'fetch-get-no-cors',
  'image',
  'script',
  'frame',
  'websocket',
  'fetch-post-no-cors',
  'form-text',
] as const satisfies readonly Means[];

function spelledPlan(port: number): Plan {
  return SPELLINGS.flatMap((host) => planAt(`http://${host}:${port}`, SPELLED_MEANS));
}

const hostOf = ({ fields }: RequestRecord): string | undefined =>
  fields.find(([name]) => name.toLowerCase() === 'host')?.[1];
