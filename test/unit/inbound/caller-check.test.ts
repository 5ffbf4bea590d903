/** Who the caller of a request is, by what the listener takes. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { ClientConfig } from '../../../src/config/config.ts';
import { ProxyError } from '../../../src/errors.ts';
import { CallerCheck } from '../../../src/inbound/caller-check.ts';
import { type Caller, subjectOf } from '../../../src/inbound/caller.ts';
import { RequestFields, RequestHead } from '../../../src/wire/request-head.ts';

const BASIC: ClientConfig = { kind: 'basic', realm: 'LAB' };
const NONE: ClientConfig = { kind: 'none' };
const LIMITS = { maxBytes: 64 * 1024, maxFields: 100 };

class World {
  readonly counted: string[] = [];
  readonly check: CallerCheck;
  readonly connection = {};

  constructor(clients: readonly ClientConfig[], place: 'origin' | 'proxy' = 'origin') {
    const judged = (client: string, result: string): unknown =>
      this.counted.push(`${client} ${result}`);
    this.check = new CallerCheck({ clients, place, meters: { judged } });
  }

  ask(fields: string, connection: object = this.connection): Caller | ProxyError {
    const bytes = Buffer.from(`GET / HTTP/1.1\r\nHost: a\r\n${fields}\r\n`, 'latin1');
    const head = new RequestHead(new RequestFields([]));
    assert.ok(head.parse(bytes, 0, bytes.length, LIMITS) > 0);
    return this.check.check(head, bytes, connection);
  }

  user(fields: string): string {
    const caller = this.ask(fields);
    if (caller instanceof ProxyError) return caller.code;
    return subjectOf(caller) ?? 'none';
  }
}

const sent = (who: string, field = 'Authorization'): string =>
  `${field}: Basic ${Buffer.from(who).toString('base64')}\r\n`;

describe('the check of a listener', () => {
  test('knows Basic callers, and asks everybody else', () => {
    const world = new World([BASIC]);
    assert.equal(world.user(sent('alice:x')), 'alice');
    for (const fields of ['', 'Authorization: Bearer x\r\n', 'Authorization: Basic x\r\n']) {
      assert.equal(world.user(fields), 'client-auth-required', fields);
    }
    assert.equal(world.check.challenge?.status, 401);
    assert.deepEqual(world.counted, ['basic ok', ...Array(3).fill('basic refused')]);
  });

  test('reads the field of proxies on a forward listener, and that alone', () => {
    const world = new World([BASIC], 'proxy');
    assert.equal(world.user(sent('alice:x', 'Proxy-Authorization')), 'alice');
    assert.equal(world.user(sent('alice:x')), 'client-auth-required');
    assert.deepEqual(world.check.challenge, {
      status: 407,
      line: 'Proxy-Authenticate: Basic realm="LAB", charset="UTF-8"',
    });
  });

  test('lets callers without credentials in where none stands last, malformed ones never', () => {
    const world = new World([BASIC, NONE]);
    assert.equal(world.user(''), 'none');
    assert.equal(world.user('Authorization: Bearer x\r\n'), 'none');
    assert.equal(world.user(sent('alice:x')), 'alice');
    assert.equal(world.user('Authorization: Basic x\r\n'), 'client-auth-required');
  });

  test('looks at nothing where it takes no credentials', () => {
    const world = new World([NONE]);
    assert.equal(world.user(sent('alice:x')), 'none');
    assert.equal(world.check.challenge, undefined);
  });

  test('gives one object for the same bytes of a connection, another one for others', () => {
    const world = new World([BASIC]);
    const first = world.ask(sent('alice:x'));
    assert.equal(world.ask(sent('alice:x')), first);
    assert.notEqual(world.ask(sent('alice:x'), {}), first);
    assert.notEqual(world.ask(sent('alice:y')), first);
    assert.equal(world.user(sent('bob:xyz')), 'bob');
    assert.equal(world.user(''), 'client-auth-required');
    assert.equal(world.user(sent('alice:x')), 'alice');
  });
});
