/** PKCS#12 stores for loads that wait for nothing: opened at once, in this thread. */
import { openPkcs12 } from '../../src/certificates/pkcs12.ts';
import type { StoreTable } from '../../src/config/store-table.ts';
import { Secret } from '../../src/identity/secret.ts';

export const syncStores: StoreTable = {
  get: ({ pkcs12, passphrase }) => {
    const found = openPkcs12(pkcs12.reveal(), passphrase?.reveal());
    return found.kind === 'fault'
      ? found
      : { ...found, kind: 'opened', key: new Secret(found.key) };
  },
};
