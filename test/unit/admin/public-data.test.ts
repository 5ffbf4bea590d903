/** What of the configuration the admin listener shows (I5, R46). */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { publicConfig } from '../../../src/admin/public-data.ts';

describe('a URL that is shown', () => {
  for (const [url, shown] of [
    ['https://idp.example/keys', 'https://idp.example/keys'],
    ['https://idp.example/keys?', 'https://idp.example/keys?…'],
    ['https://idp.example/keys?key=canary', 'https://idp.example/keys?…'],
    ['HTTPS://idp.example?key=canary&more=canary#canary', 'HTTPS://idp.example?…'],
    ['https://idp.example/a?b=canary?c=canary', 'https://idp.example/a?…'],
    ['https://idp.example/a?b=canary\n&c=canary', 'https://idp.example/a?…'],
    ['https://me:canary@idp.example/a?b=canary', 'https://[secret]@idp.example/a?…'],
    ['https://idp.example/a?b=me:canary@c', 'https://idp.example/a?…'],
  ] as const) {
    test(`is without its query: ${JSON.stringify(url)}`, () => {
      const config = { listeners: [{ clients: [{ jwt: { jwks: url } }] }] };
      const wanted = { listeners: [{ clients: [{ jwt: { jwks: shown } }] }] };
      assert.deepEqual(publicConfig(config), wanted);
    });
  }

  test('is whole where it is none: paths and patterns may have a question mark', () => {
    for (const text of ['/etc/keys?.json', 'who?', '*?x', 'a?b://c']) {
      assert.equal(publicConfig(text), text);
    }
  });
});
