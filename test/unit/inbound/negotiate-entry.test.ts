/** Callers by Kerberos tickets, as the check of a listener sees them; a stand-in says whose tokens are. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { ProxyError } from '../../../src/errors.ts';
import { BasicEntry } from '../../../src/inbound/basic-entry.ts';
import { CallerCheck } from '../../../src/inbound/caller-check.ts';
import { subjectOf } from '../../../src/inbound/caller.ts';
import type { CallerConnection, ClientEntry } from '../../../src/inbound/client-entry.ts';
import { NegotiateEntry, type NegotiateSettings } from '../../../src/inbound/negotiate-entry.ts';
import {
  type Ticket,
  type TicketAcceptor,
  TicketCallers,
} from '../../../src/inbound/ticket-callers.ts';
import { REQUEST_FIELD, RequestFields, RequestHead } from '../../../src/wire/request-head.ts';
import { FakeClock } from '../../support/fake-clock.ts';

const LIMITS = { maxBytes: 1024 * 1024, maxFields: 100 };
const FIELDS = new RequestFields([], []);

/** Takes each token once, for the user that it names. */
class StandIn implements TicketAcceptor {
  readonly shown: string[] = [];
  fails: ProxyError | undefined;

  async accept(token: Uint8Array): Promise<Ticket | ProxyError> {
    const text = Buffer.from(token).toString();
    const isReplay = this.shown.includes(text);
    this.shown.push(text);
    await Promise.resolve();
    if (this.fails !== undefined) return this.fails;
    const [name = ''] = text.split(' ');
    if (isReplay || name === 'wrong') return refused();
    return { name: `${name}@LAB`, token: Buffer.from(text.endsWith('mutual') ? 'proof' : '') };
  }
}

const refused = (): ProxyError =>
  new ProxyError('caller-ticket-refused', 'no', { side: 'downstream', stage: 'identify' });

class World {
  readonly clock = new FakeClock();
  readonly acceptor = new StandIn();
  readonly callers = new TicketCallers(this.clock);
  readonly counted: string[] = [];
  readonly connection: CallerConnection = { remoteAddress: '127.0.0.1' };
  check: CallerCheck;

  constructor(settings: Partial<NegotiateSettings> = {}, ...others: ClientEntry[]) {
    this.check = this.checkOf([this.entry(settings), ...others]);
  }

  entry(settings: Partial<NegotiateSettings> = {}): NegotiateEntry {
    return new NegotiateEntry({
      field: REQUEST_FIELD.authorization,
      answerField: 'WWW-Authenticate',
      persist: 'request',
      acceptor: this.acceptor,
      callers: this.callers,
      ...settings,
    });
  }

  /** As a configuration makes it anew. */
  checkOf(entries: readonly ClientEntry[], takesNone = false): CallerCheck {
    const judged = (client: string, result: string): unknown =>
      this.counted.push(`${client} ${result}`);
    return new CallerCheck({ entries, takesNone, challenge: undefined, meters: { judged } });
  }

  /** One look at a request, as a dispatcher takes it. */
  look(
    fields: string,
    connection: CallerConnection = this.connection,
  ): ReturnType<CallerCheck['check']> {
    const bytes = Buffer.from(`GET / HTTP/1.1\r\nHost: a\r\n${fields}\r\n`, 'latin1');
    const head = new RequestHead(FIELDS);
    assert.ok(head.parse(bytes, 0, bytes.length, LIMITS) > 0);
    connection.answerLines = undefined;
    return this.check.check(head, bytes, connection);
  }

  /** A request, which is looked at again once somebody was asked; `meanwhile` comes between. */
  async ask(fields = '', meanwhile = (): void => undefined): Promise<string> {
    let found = this.look(fields);
    if (!(found instanceof ProxyError) && found.kind === 'undecided') {
      await found.settled;
      meanwhile();
      found = this.look(fields);
    }
    if (found instanceof ProxyError) return found.code;
    return found.kind === 'undecided' ? 'undecided' : (subjectOf(found) ?? 'none');
  }
}

const sent = (text: string): string =>
  `Authorization: Negotiate ${Buffer.from(text).toString('base64')}\r\n`;

const basicField = `Authorization: Basic ${Buffer.from('carol:x').toString('base64')}\r\n`;

describe('a ticket for a request', () => {
  test('names the caller of one request, once', async () => {
    const world = new World();
    assert.equal(await world.ask(sent('alice 1')), 'alice@LAB');
    // The same bytes on the same connection: asked anew, and refused by who has seen them.
    assert.equal(await world.ask(sent('alice 1')), 'caller-ticket-refused');
    assert.equal(await world.ask(), 'client-auth-required');
    assert.equal(await world.ask(sent('bob 1')), 'bob@LAB');
    assert.deepEqual(world.acceptor.shown, ['alice 1', 'alice 1', 'bob 1']);
    assert.deepEqual(world.counted, [
      'negotiate ok',
      'negotiate refused',
      'negotiate refused',
      'negotiate ok',
    ]);
  });

  test('R32 is not shown again to the same acceptor when the configuration changes meanwhile', async () => {
    const world = new World();
    const reload = (): void => {
      world.check = world.checkOf([world.entry()]);
    };
    assert.equal(await world.ask(sent('alice 1'), reload), 'alice@LAB');
    assert.deepEqual(world.acceptor.shown, ['alice 1']);
  });

  test('R32 is worth nothing, and is shown to nobody, when another acceptor is in force by then', async () => {
    const world = new World();
    const other = new StandIn();
    const reload = (): void => {
      world.check = world.checkOf([world.entry({ acceptor: other })]);
    };
    assert.equal(await world.ask(sent('alice 1'), reload), 'caller-ticket-refused');
    assert.deepEqual(other.shown, []);
  });

  test('is one connection’s: its answer is taken by no other', async () => {
    const world = new World();
    const found = world.look(sent('alice 1'));
    assert.ok(!(found instanceof ProxyError) && found.kind === 'undecided');
    await found.settled;
    const other = world.look(sent('alice 1'), { remoteAddress: '127.0.0.1' });
    assert.ok(!(other instanceof ProxyError) && other.kind === 'undecided');
    assert.deepEqual(world.acceptor.shown, ['alice 1', 'alice 1']);
  });

  test('gives one object for one name, on any connection', async () => {
    const world = new World();
    const callers = new Set<unknown>();
    for (const text of ['alice 1', 'alice 2']) {
      const connection: CallerConnection = { remoteAddress: '127.0.0.1' };
      const found = world.look(sent(text), connection);
      if (!(found instanceof ProxyError) && found.kind === 'undecided') await found.settled;
      callers.add(world.look(sent(text), connection));
    }
    assert.deepEqual([...callers], [{ kind: 'negotiate', subject: 'alice@LAB' }]);
  });

  test('comes with the token of the acceptor, for the answer to this request alone', async () => {
    const world = new World();
    await world.ask(sent('alice mutual'));
    const proof = Buffer.from('proof').toString('base64');
    const lines = `WWW-Authenticate: Negotiate ${proof}\r\nPersistent-Auth: false\r\n`;
    assert.equal(world.connection.answerLines, lines);
    await world.ask(sent('alice 1'));
    assert.equal(world.connection.answerLines, 'Persistent-Auth: false\r\n');
    await world.ask(sent('wrong 1'));
    assert.equal(world.connection.answerLines, undefined);
    await world.ask();
    assert.equal(world.connection.answerLines, undefined);
  });

  test('is read from the field of proxies on a forward listener, and answered in its own', async () => {
    const world = new World({
      field: REQUEST_FIELD.proxyAuthorization,
      answerField: 'Proxy-Authenticate',
    });
    assert.equal(await world.ask(sent('alice 1')), 'client-auth-required');
    assert.equal(await world.ask(`Proxy-${sent('alice mutual')}`), 'alice@LAB');
    const proof = Buffer.from('proof').toString('base64');
    assert.equal(world.connection.answerLines, `Proxy-Authenticate: Negotiate ${proof}\r\n`);
  });

  test('of an escaped name, or of one that cannot be told, lets nobody in', async () => {
    const world = new World();
    for (const name of ['a\\', 'a"b', 'a,b', 'a\u2028b']) {
      assert.equal(await world.ask(sent(`${name} 1`)), 'caller-name-refused', name);
    }
  });

  test('that nobody can check is no wrong one', async () => {
    const world = new World();
    const facts = { side: 'internal', stage: 'identify' } as const;
    world.acceptor.fails = new ProxyError('acceptor-unavailable', 'away', facts);
    assert.equal(await world.ask(sent('alice 1')), 'acceptor-unavailable');
    assert.deepEqual(world.counted, ['negotiate failed']);
  });
});

describe('a token that is no base64', () => {
  for (const [name, value, code] of [
    ['nothing', 'Negotiate', 'caller-ticket-refused'],
    ['a space in it', 'Negotiate YWxp Y2U=', 'caller-ticket-refused'],
    ['the alphabet of URLs', 'Negotiate -_-_', 'caller-ticket-refused'],
    ['no padding', 'Negotiate YQ', 'caller-ticket-refused'],
    ['too much padding', 'Negotiate ====', 'caller-ticket-refused'],
    ['stray bits', 'Negotiate YR==', 'caller-ticket-refused'],
    ['parameters', 'Negotiate a=b', 'caller-ticket-refused'],
    ['a byte beyond ASCII', 'Negotiate YWxpY2U\xff', 'caller-ticket-refused'],
    ['too long', `Negotiate ${'A'.repeat(88_000)}`, 'caller-ticket-refused'],
    ['A20 other credentials', 'Negotiate YWxpY2U=, Basic YTpi', 'request-malformed'],
    ['A20 two of it', 'Negotiate YWxpY2U=, Negotiate YWxpY2U=', 'request-malformed'],
    ['another scheme', 'Negotiated YWxpY2U=', 'client-auth-required'],
    ['NTLM', 'NTLM YWxpY2U=', 'client-auth-required'],
  ] as const) {
    test(`A11 is shown to nobody: ${name}`, async () => {
      const world = new World();
      assert.equal(await world.ask(`Authorization: ${value}\r\n`), code);
      assert.deepEqual(world.acceptor.shown, []);
    });
  }

  test('of 64 KiB is shown', async () => {
    const world = new World();
    const long = `alice ${'x'.repeat(64 * 1024 - 6)}`;
    assert.equal(await world.ask(sent(long)), 'alice@LAB');
    assert.equal(await world.ask(sent(`${long}x`)), 'caller-ticket-refused');
  });
});

describe('a ticket for a connection', () => {
  const persist = 'connection';

  test('names the caller of requests without credentials, until another ticket comes', async () => {
    const world = new World({ persist });
    assert.equal(await world.ask(sent('alice 1')), 'alice@LAB');
    assert.equal(world.connection.answerLines, 'Persistent-Auth: true\r\n');
    assert.deepEqual([await world.ask(), await world.ask()], Array(2).fill('alice@LAB'));
    assert.equal(await world.ask(sent('bob 1')), 'bob@LAB');
    assert.equal(await world.ask(), 'bob@LAB');
    assert.deepEqual(world.acceptor.shown, ['alice 1', 'bob 1']);
  });

  test('ends with a wrong one, whatever was wrong', async () => {
    for (const wrong of [sent('wrong 1'), sent('alice 1'), 'Authorization: Negotiate ====\r\n']) {
      const world = new World({ persist });
      await world.ask(sent('alice 1'));
      assert.equal(await world.ask(wrong), 'caller-ticket-refused');
      assert.equal(await world.ask(), 'client-auth-required');
    }
  });

  test('is of that connection, and of no request with other credentials', async () => {
    const world = new World({ persist }, new BasicEntry(REQUEST_FIELD.authorization, undefined));
    await world.ask(sent('alice 1'));
    const other = world.look('', { remoteAddress: '127.0.0.1' });
    assert.ok(other instanceof ProxyError);
    assert.equal(await world.ask(basicField), 'carol');
    assert.equal(await world.ask('Authorization: Bearer x\r\n'), 'client-auth-required');
  });

  test('comes before callers without credentials, where those are let in', async () => {
    const world = new World();
    world.check = world.checkOf([world.entry({ persist })], true);
    assert.equal(await world.ask(), 'none');
    await world.ask(sent('alice 1'));
    assert.equal(await world.ask(), 'alice@LAB');
  });

  test('is worth ten minutes', async () => {
    const world = new World({ persist });
    await world.ask(sent('alice 1'));
    world.clock.advance(10 * 60_000 - 50);
    assert.equal(await world.ask(), 'alice@LAB');
    world.clock.advance(50);
    assert.equal(await world.ask(), 'client-auth-required');
  });

  test('outlives a configuration with the same acceptor, and none with another', async () => {
    const world = new World({ persist });
    await world.ask(sent('alice 1'));
    world.check = world.checkOf([world.entry({ persist })]);
    assert.equal(await world.ask(), 'alice@LAB');
    world.check = world.checkOf([world.entry({ persist, acceptor: new StandIn() })]);
    assert.equal(await world.ask(), 'client-auth-required');
    // Nor does it come back.
    world.check = world.checkOf([world.entry({ persist })]);
    assert.equal(await world.ask(), 'client-auth-required');
  });

  test('of a name that cannot be told is nobody’s', async () => {
    const world = new World({ persist });
    assert.equal(await world.ask(sent('a"b 1')), 'caller-name-refused');
    assert.notEqual(await world.ask(), 'a"b@LAB');
    assert.equal(await world.ask(sent('a\\ 1')), 'caller-name-refused');
    assert.equal(await world.ask(), 'client-auth-required');
  });
});
