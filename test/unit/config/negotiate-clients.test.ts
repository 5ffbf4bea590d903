/** What a listener may say of Kerberos callers: whose keys it takes, and for how long a ticket is worth. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { NegotiateClient } from '../../../src/config/config.ts';
import { decodeKeytab } from '../../../src/identity/keytab.ts';
import { testKeytab } from '../../support/kerberos-files.ts';
import { bareMachine, faultLines, loaded } from './loading.ts';

const GATEWAY = 'HTTP/gateway.corp@CORP';
const OTHER = 'HTTP/other.corp@CORP';

const KEYTAB = testKeytab(
  { principal: OTHER, key: 'o'.repeat(32) },
  { principal: GATEWAY, version: 1, key: 'a'.repeat(32) },
  { principal: GATEWAY, version: 2, key: 'b'.repeat(32) },
  { principal: 'HTTP/gateway.corp@PARTNER', key: 'c'.repeat(32) },
);

const config = (client: string, listener = 'routes: { upstream: web }'): string => `version: 1
upstreams: { web: { url: 'http://web.corp' } }
listeners:
  - name: api
    listen: 127.0.0.1:1
    clients: [negotiate: ${client}]
    ${listener}
`;

const io = (file: Uint8Array = KEYTAB): ReturnType<typeof bareMachine> =>
  bareMachine({ files: { '/k': file } });

function clientOf(client: string, file?: Uint8Array): NegotiateClient {
  const [found] = loaded(config(client), io(file)).listeners[0]?.clients ?? [];
  assert.ok(found?.kind === 'negotiate');
  return found;
}

const principalsOf = ({ keys }: NegotiateClient): string[] =>
  (decodeKeytab(keys.reveal()) ?? []).map(({ principal, version }) => `${principal} ${version}`);

const faultsOf = (client: string, file?: Uint8Array, listener?: string): string[] =>
  faultLines(config(client, listener), io(file)).map((line) => line.replace(/^[\d:]+ /, ''));

describe('the keys of an acceptor', () => {
  test('are those of its service name, of any realm and version, and of no other name (A17)', () => {
    const client = clientOf('{ keytab: /k, spn: HTTP/gateway.corp }');
    assert.deepEqual(principalsOf(client), [
      `${GATEWAY} 1`,
      `${GATEWAY} 2`,
      'HTTP/gateway.corp@PARTNER 1',
    ]);
    assert.deepEqual([client.spn, client.persist], ['HTTP/gateway.corp', 'request']);
  });

  test('are those of one realm where the name has it', () => {
    const client = clientOf(`{ keytab: /k, spn: ${GATEWAY} }`);
    assert.deepEqual(principalsOf(client), [`${GATEWAY} 1`, `${GATEWAY} 2`]);
  });

  test('need no name where the keytab has one only', () => {
    const one = testKeytab({ principal: GATEWAY }, { principal: GATEWAY, version: 2 });
    assert.equal(clientOf('{ keytab: /k }', one).spn, 'HTTP/gateway.corp');
    const { effective } = loaded(config('{ keytab: /k }'), io(one));
    assert.match(JSON.stringify(effective), /"negotiate":\{[^}]*"spn":"HTTP\/gateway.corp"/);
    assert.deepEqual(faultsOf('{ keytab: /k }'), [
      'listeners[0].clients[0].negotiate.spn: missing; the keytab has keys of several names, and one is wanted',
    ]);
  });

  test('are told apart by a fingerprint, which other keys of the file do not change', () => {
    const print = (file: Uint8Array): string =>
      clientOf('{ keytab: /k, spn: HTTP/gateway.corp }', file).fingerprint;
    const own = { principal: GATEWAY, key: 'a'.repeat(32) };
    const first = print(testKeytab(own));
    assert.equal(print(testKeytab({ principal: OTHER }, own)), first);
    assert.notEqual(print(testKeytab({ ...own, key: 'b'.repeat(32) })), first);
  });

  test('are a credential fault at their place where they are not there', () => {
    const at = 'listeners[0].clients[0].negotiate.keytab: file';
    const spn = 'spn: HTTP/gateway.corp';
    assert.deepEqual(faultsOf(`{ keytab: /away, ${spn} }`), [`${at} /away does not exist`]);
    assert.deepEqual(faultsOf(`{ keytab: /k, ${spn} }`, Buffer.from('secret\n')), [
      `${at} /k is no keytab of format 0x502`,
    ]);
    assert.deepEqual(faultsOf(`{ keytab: /k, ${spn} }`, testKeytab({ principal: OTHER })), [
      `${at} /k has no key of HTTP/gateway.corp`,
    ]);
    assert.deepEqual(faultsOf('{ keytab: /k }', testKeytab()), [`${at} /k has no keys`]);
    assert.deepEqual(faultsOf('{ keytab: /k, spn: HTTP/GATEWAY.corp }'), [
      `${at} /k has no key of HTTP/GATEWAY.corp`,
    ]);
  });
});

describe('a ticket', () => {
  test('names its connection only where the callers have connections of their own', () => {
    const own = 'keytab: /k, spn: HTTP/gateway.corp, persist: connection';
    assert.equal(clientOf(`{ ${own}, directClients: true }`).persist, 'connection');
    assert.deepEqual(faultsOf(`{ ${own} }`), [
      'listeners[0].clients[0].negotiate.persist: connection needs directClients: true, and HTTP/1.1 only',
    ]);
  });

  test('and challenges that are passed on do not go together', () => {
    const client = '{ keytab: /k, spn: HTTP/gateway.corp }';
    const routes = 'routes: [{ upstream: web }, { path: /p/, upstream: web, challenge: pass }]';
    assert.deepEqual(faultsOf(client, KEYTAB, routes), [
      'listeners[0].clients[0].negotiate: routes[1] passes challenges, which such callers can only answer to the listener',
    ]);
    assert.deepEqual(faultsOf(client, KEYTAB, 'mode: forward'), []);
  });
});
