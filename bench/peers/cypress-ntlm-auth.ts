/**
 * Peer of the benchmarks: the proxy of cypress-ntlm-auth. Arguments: the folder where the package is
 * installed, and `host:port` of the origin that it logs in to; the account comes by the environment.
 */

import { createRequire } from 'node:module';
import { join } from 'node:path';

interface NtlmProxy {
  ntlm(config: Readonly<Record<string, unknown>>): Promise<void>;
}

interface Package {
  startNtlmProxy(): Promise<NtlmProxy>;
}

const [folder = '', host = ''] = process.argv.slice(2);
const { BENCH_USER: username, BENCH_DOMAIN: domain, BENCH_PASSWORD: password } = process.env;

const load: (name: string) => unknown = createRequire(join(folder, 'package.json'));
const proxy = await (load('cypress-ntlm-auth') as Package).startNtlmProxy();
await proxy.ntlm({ ntlmHosts: [host], username, password, domain, ntlmVersion: 2 });
