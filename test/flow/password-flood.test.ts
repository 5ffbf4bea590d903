/** A flood of passwords from one address, and what callers elsewhere notice of it (G8). */
import assert from 'node:assert/strict';
import { hashSync } from 'bcryptjs';
import { describe, test } from 'node:test';
import { RawClient } from '../support/raw-client.ts';
import { until } from '../support/waiting.ts';
import { basic, CallersWorld, reasonOf } from './callers-world.ts';

/** Slow enough that none of a flood is through before the caller elsewhere comes. */
const USERS = `alice:${hashSync('alice-gate', 10)}`;

/** More than may wait for one address, and than may wait in all. */
const FLOOD = 300;

class Flood implements AsyncDisposable {
  readonly refused: string[] = [];
  readonly #clients: RawClient[] = [];

  /** Resolves once there is no room for more of it. */
  async start(world: CallersWorld, credentials: (i: number) => [string, string]): Promise<void> {
    const target = { ...world.daemon.address(), localAddress: '127.0.0.2' };
    for (let i = 0; i < FLOOD; i += 1) {
      const client = await RawClient.connect(target);
      this.#clients.push(client);
      const host = { Host: world.daemon.authority() };
      await client.request('GET /x', { ...host, ...basic(...credentials(i)) });
      void client.response('GET', 60_000).then(
        (answer) => this.refused.push(reasonOf(answer)),
        () => undefined,
      );
    }
    await until(() => this.busy > 30, 'the end of the flood finds no room');
  }

  get busy(): number {
    return this.refused.filter((reason) => reason === 'caller-check-busy').length;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.#clients.map((client) => client[Symbol.asyncDispose]()));
  }
}

describe('a right password from elsewhere is let in soon', () => {
  for (const [what, credentials] of [
    ['made-up names', (i) => [`nobody ${i}`, 'x']],
    ['wrong passwords for the same name', (i) => ['alice', `guess ${i}`]],
  ] as const satisfies [string, (i: number) => [string, string]][]) {
    test(`behind a flood of ${what}`, async () => {
      await using world = await CallersWorld.ready({ users: USERS });
      await using flood = new Flood();
      await flood.start(world, credentials);
      const { status } = await world.ask(basic('alice', 'alice-gate'));
      assert.equal(status, 200);
      // Most of those that wait came before it, and wait on.
      assert.ok(flood.refused.length < FLOOD - 100, String(flood.refused.length));
    });
  }
});
