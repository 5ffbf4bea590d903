/** Who the caller of a request is, by what the listener takes. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { AddressList } from '../../../src/config/address-list.ts';
import { ProxyError } from '../../../src/errors.ts';
import { BasicEntry, type PasswordVerifier } from '../../../src/inbound/basic-entry.ts';
import { CallerCheck } from '../../../src/inbound/caller-check.ts';
import { subjectOf } from '../../../src/inbound/caller.ts';
import type { CallerConnection, ClientEntry } from '../../../src/inbound/client-entry.ts';
import { HeaderEntry } from '../../../src/inbound/header-entry.ts';
import { REQUEST_FIELD, RequestFields, RequestHead } from '../../../src/wire/request-head.ts';

const LIMITS = { maxBytes: 64 * 1024, maxFields: 100 };
const FIELDS = new RequestFields(['X-Remote-User'], ['X-Remote-User']);

/** Callers whose password is right, and a way to say when the answer comes. */
class Passwords implements PasswordVerifier {
  readonly known = new Set<string>();
  readonly asked: string[] = [];
  answer: 'ok' | 'wrong' | ProxyError = 'ok';
  waits = Promise.withResolvers<void>();

  isKnown(digest: string): boolean {
    return this.known.has(digest);
  }

  async verify({
    user,
    digest,
  }: {
    user: string;
    digest: string;
  }): Promise<'ok' | 'wrong' | ProxyError> {
    this.asked.push(user);
    const { answer } = this;
    await this.waits.promise;
    if (answer === 'ok') this.known.add(digest);
    return answer;
  }
}

const basic = (users?: PasswordVerifier): ClientEntry =>
  new BasicEntry(REQUEST_FIELD.authorization, users);

const header = (): HeaderEntry =>
  new HeaderEntry({
    name: 'X-Remote-User',
    field: FIELDS.idOf('X-Remote-User'),
    from: new AddressList(['10.1.2.3/32']),
  });

const connectionOf = (remoteAddress = '127.0.0.1'): CallerConnection => ({ remoteAddress });

class World {
  readonly counted: string[] = [];
  readonly check: CallerCheck;
  readonly connection = connectionOf();

  constructor(entries: readonly ClientEntry[], takesNone = false) {
    const judged = (client: string, result: string): unknown =>
      this.counted.push(`${client} ${result}`);
    const challenge = undefined;
    this.check = new CallerCheck({ entries, takesNone, challenge, meters: { judged } });
  }

  ask(fields: string, connection = this.connection): ReturnType<CallerCheck['check']> {
    const bytes = Buffer.from(`GET / HTTP/1.1\r\nHost: a\r\n${fields}\r\n`);
    const head = new RequestHead(FIELDS);
    assert.ok(head.parse(bytes, 0, bytes.length, LIMITS) > 0);
    return this.check.check(head, bytes, connection);
  }

  user(fields: string, connection = this.connection): string {
    return nameOf(this.ask(fields, connection));
  }
}

function nameOf(found: ReturnType<CallerCheck['check']>): string {
  if (found instanceof ProxyError) return found.code;
  if (found.kind === 'undecided') return 'undecided';
  return subjectOf(found) ?? 'none';
}

const sent = (who: string, field = 'Authorization'): string =>
  `${field}: Basic ${Buffer.from(who).toString('base64')}\r\n`;

describe('the check of a listener', () => {
  test('knows Basic callers, and asks everybody else', () => {
    const world = new World([basic()]);
    assert.equal(world.user(sent('alice:x')), 'alice');
    for (const fields of ['', 'Authorization: Bearer x\r\n', 'Authorization: Basic x\r\n']) {
      assert.equal(world.user(fields), 'client-auth-required', fields);
    }
    assert.deepEqual(world.counted, ['basic ok', ...Array(3).fill('basic refused')]);
  });

  test('reads the field of proxies on a forward listener, and that alone', () => {
    const world = new World([new BasicEntry(REQUEST_FIELD.proxyAuthorization, undefined)]);
    assert.equal(world.user(sent('alice:x', 'Proxy-Authorization')), 'alice');
    assert.equal(world.user(sent('alice:x')), 'client-auth-required');
  });

  test('lets callers without credentials in where none stands last, malformed ones never', () => {
    const world = new World([basic()], true);
    assert.equal(world.user(''), 'none');
    assert.equal(world.user('Authorization: Bearer x\r\n'), 'none');
    assert.equal(world.user(sent('alice:x')), 'alice');
    assert.equal(world.user('Authorization: Basic x\r\n'), 'client-auth-required');
  });

  test('looks at nothing where it takes no credentials', () => {
    const world = new World([], true);
    assert.equal(world.user(sent('alice:x')), 'none');
  });

  test('gives one object for the same bytes of a connection, another one for others', () => {
    const world = new World([basic()]);
    const first = world.ask(sent('alice:x'));
    assert.equal(world.ask(sent('alice:x')), first);
    assert.notEqual(world.ask(sent('alice:x'), connectionOf()), first);
    assert.notEqual(world.ask(sent('alice:y')), first);
    assert.equal(world.user(sent('bob:xyz')), 'bob');
    assert.equal(world.user(''), 'client-auth-required');
    assert.equal(world.user(sent('alice:x')), 'alice');
  });
});

describe('a name that a trusted proxy sets', () => {
  const proxy = connectionOf('10.1.2.3');

  test('is the caller from its address, and nobody from any other', () => {
    const world = new World([header()]);
    assert.equal(world.user('X-Remote-User: alice\r\n', proxy), 'alice');
    for (const address of ['10.1.2.4', '127.0.0.1', 'unix', '::1']) {
      const found = world.user('X-Remote-User: alice\r\n', connectionOf(address));
      assert.equal(found, 'client-auth-required', address);
    }
  });

  test('is nobody from a unix socket, whatever addresses are trusted', () => {
    const field = FIELDS.idOf('X-Remote-User');
    const from = new AddressList(['0.0.0.0/0', '::/0']);
    const entry = new HeaderEntry({ name: 'X-Remote-User', field, from });
    const world = new World([entry]);
    const asked = 'X-Remote-User: alice\r\n';
    for (const address of ['unix', '192.0.2.1', 'unix', '::ffff:192.0.2.1', 'unix']) {
      const wanted = address === 'unix' ? 'client-auth-required' : 'alice';
      assert.equal(world.user(asked, connectionOf(address)), wanted, address);
    }
  });

  test('counts in its own spelling alone', () => {
    const world = new World([header()]);
    assert.equal(world.user('x-remote-USER: alice\r\n', proxy), 'alice');
    for (const name of ['X_Remote_User', 'X.Remote.User', 'X-Remote_User']) {
      assert.equal(world.user(`${name}: admin\r\n`, proxy), 'client-auth-required', name);
    }
  });

  test('may stand there once, in any spelling, whoever sent it', () => {
    const bytes = Buffer.from(
      'GET / HTTP/1.1\r\nHost: a\r\nX-Remote-User: alice\r\nX_Remote_User: bob\r\n\r\n',
    );
    const head = new RequestHead(FIELDS);
    assert.equal(head.parse(bytes, 0, bytes.length, LIMITS), -1);
    assert.equal(head.fault, 'malformed');
  });

  test('that is empty names nobody', () => {
    const world = new World([header()], true);
    assert.equal(world.user('X-Remote-User:  \r\n', proxy), 'none');
  });

  test('R53 alice then bob, with one Authorization on one connection, are two callers', () => {
    const world = new World([header(), basic()]);
    const field = sent('svc:x');
    assert.equal(world.user(`X-Remote-User: alice\r\n${field}`, proxy), 'alice');
    assert.equal(world.user(`X-Remote-User: bob\r\n${field}`, proxy), 'bob');
    assert.equal(world.user(field, proxy), 'svc');
    assert.equal(world.user(`X-Remote-User: alice\r\n${field}`, proxy), 'alice');
  });

  for (const [what, name] of [
    ['a quote', 'al"ice'],
    ['a comma', 'alice, bob'],
    ['DEL', 'alice\x7f'],
    ['U+0085', 'alice\u0085'],
    ['U+2028', 'alice\u2028'],
    ['a change of direction', 'alice\u202e'],
    ['a blank without width', 'ali\u200bce'],
    ['more than 1,024 characters', 'a'.repeat(1025)],
  ] as const) {
    test(`is refused with ${what}`, () => {
      const world = new World([header()]);
      const fields = `X-Remote-User: ${name}\r\n`;
      // The parser has refused some of them already.
      if (name.includes('\x7f')) assert.throws(() => world.ask(fields, proxy));
      else assert.equal(world.user(fields, proxy), 'caller-name-refused');
    });
  }
});

describe('a caller whose password is checked elsewhere', () => {
  test('waits, is known then, and his next request waits for nothing', async () => {
    const passwords = new Passwords();
    const world = new World([basic(passwords)]);
    const pending = world.ask(sent('alice:x'));
    assert.ok(!(pending instanceof ProxyError) && pending.kind === 'undecided');
    assert.deepEqual(world.counted, []);
    passwords.waits.resolve();
    await pending.settled;
    assert.equal(world.user(sent('alice:x')), 'alice');
    assert.equal(world.user(sent('alice:x')), 'alice');
    assert.equal(world.user(sent('alice:x'), connectionOf()), 'alice');
    assert.deepEqual(passwords.asked, ['alice']);
    assert.deepEqual(world.counted, Array(3).fill('basic ok'));
  });

  test('is refused when it is wrong, and asked for again by the same bytes', async () => {
    const passwords = new Passwords();
    passwords.answer = 'wrong';
    passwords.waits.resolve();
    const world = new World([basic(passwords)]);
    for (const round of [1, 2]) {
      const pending = world.ask(sent('alice:x'));
      assert.ok(!(pending instanceof ProxyError) && pending.kind === 'undecided');
      await pending.settled;
      assert.equal(world.user(sent('alice:x')), 'client-auth-required');
      assert.equal(passwords.asked.length, round);
    }
    assert.deepEqual(world.counted, Array(2).fill('basic refused'));
  });

  test('an answer is for the bytes that were asked about, and for nobody else', async () => {
    const passwords = new Passwords();
    passwords.waits.resolve();
    const world = new World([basic(passwords)]);
    const pending = world.ask(sent('alice:x'));
    assert.ok(!(pending instanceof ProxyError) && pending.kind === 'undecided');
    await pending.settled;
    assert.equal(world.user(sent('mallo:y')), 'undecided');
    assert.equal(world.user(sent('alice:x'), connectionOf()), 'alice');
  });

  test('R49 is asked for again once what was found out does not hold any more', async () => {
    const passwords = new Passwords();
    passwords.waits.resolve();
    const world = new World([basic(passwords)]);
    const pending = world.ask(sent('alice:x'));
    assert.ok(!(pending instanceof ProxyError) && pending.kind === 'undecided');
    await pending.settled;
    assert.equal(world.user(sent('alice:x')), 'alice');
    passwords.known.clear();
    assert.equal(world.user(sent('alice:x')), 'undecided');
  });

  test('a check that breaks its promise lets nobody in', async () => {
    const passwords = new Passwords();
    passwords.waits.reject(new Error('broken'));
    const world = new World([basic(passwords)]);
    const pending = world.ask(sent('alice:x'));
    assert.ok(!(pending instanceof ProxyError) && pending.kind === 'undecided');
    await pending.settled;
    assert.equal(world.user(sent('alice:x')), 'internal');
    assert.deepEqual(world.counted, ['basic failed']);
  });
});
