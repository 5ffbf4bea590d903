/**
 * Holds the structure: layers import downward only, no cycles, one importer per third-party
 * package, `process.env` and `reveal()` only where listed, no barrels, no default exports.
 * Each rule is shown to fail on a planted violation.
 */
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';
import test from 'node:test';

const ROOT = join(import.meta.dirname, '..');

/** Which folder (or file) of `src` may import which others; the order is top to bottom. */
const MAY_IMPORT: Readonly<Record<string, string>> = {
  cmd: 'app demo explain config auth admin inbound log identity metrics errors units',
  demo: 'app auth config identity log errors units http wire',
  explain:
    'app proxy relay establish pool auth upstream transport identity http wire config metrics log errors clock deadlines bounded-map',
  app: 'server admin proxy inbound relay establish pool auth upstream transport identity http wire config certificates metrics log errors clock deadlines bounded-map units',
  server:
    'proxy relay transport identity wire http config certificates metrics log errors deadlines clock',
  admin: 'proxy http config metrics log errors',
  proxy:
    'inbound relay establish pool auth upstream transport identity http wire config metrics log errors clock deadlines bounded-map units',
  inbound: 'identity http wire config metrics log errors clock deadlines bounded-map',
  relay: 'pool upstream transport identity http wire metrics log errors clock deadlines',
  establish: 'pool auth upstream transport identity http wire metrics log errors clock deadlines',
  pool: 'identity errors clock deadlines log',
  auth: 'upstream identity http errors clock deadlines bounded-map log',
  upstream: 'transport certificates identity http wire errors clock deadlines bounded-map log',
  transport: 'errors',
  identity: 'errors bounded-map',
  wire: 'http errors',
  http: 'errors',
  config: 'certificates identity http errors units',
  certificates: 'identity errors clock',
  metrics: 'errors',
  log: '',
  'bounded-map': '',
  deadlines: 'clock',
  clock: '',
  units: '',
  errors: '',
};

/** Folders that do no I/O and know no sockets. */
const PURE = ['src/http/', 'src/wire/', 'src/auth/ntlm/', 'src/pool/partition-key.ts'];
const IMPURE_MODULES = /^node:(net|tls|http|https|http2|fs|dns|child_process|dgram|worker_threads)/;

/** The only file that imports a package. */
const IMPORTER: Readonly<Record<string, string>> = {
  yaml: 'src/config/yaml-document.ts',
  zod: 'src/config/schema.ts',
  pino: 'src/log/pino-log.ts',
  'prom-client': 'src/metrics/prometheus.ts',
  'lru-cache': 'src/bounded-map.ts',
  jose: 'src/inbound/jwt/verification-keys.ts',
  bcryptjs: 'src/inbound/htpasswd/password-hash.ts',
  kerberos: 'src/auth/kerberos/helper.ts',
  asn1js: 'src/certificates/pkcs12-structure.ts',
  pkijs: 'src/certificates/pkcs12-structure.ts',
  'http-proxy-3': 'src/server/http2/carrier.ts',
};

const ENV_FILES = /^(cmd\/|src\/config\/secrets\.ts$)/;
const REVEAL_FILES = [
  'src/identity/secret.ts',
  'src/identity/secret-version.ts',
  'src/config/secrets.ts',
  'src/auth/ntlm/context.ts',
  'src/auth/kerberos/kinit.ts',
  'src/auth/kerberos/acceptors.ts',
  'src/upstream/tls-profile.ts',
  'src/server/tls-profile.ts',
  'src/app/identities.ts',
  'src/auth/basic.ts',
  'src/auth/digest.ts',
  'src/inbound/htpasswd/password-hash.ts',
  'src/inbound/htpasswd/worker-link.ts',
  'src/certificates/pkcs12-link.ts',
  'src/certificates/opened-stores.ts',
  'src/certificates/key-and-chain.ts',
];

interface Source {
  readonly path: string;
  readonly text: string;
}

function sources(): Source[] {
  const found: Source[] = [];
  for (const folder of ['cmd', 'src']) {
    for (const entry of readdirSync(join(ROOT, folder), { recursive: true, encoding: 'utf8' })) {
      if (!entry.endsWith('.ts')) continue;
      const path = `${folder}/${entry}`;
      found.push({ path, text: readFileSync(join(ROOT, path), 'utf8') });
    }
  }
  return found;
}

const withoutComments = (text: string): string =>
  text.replaceAll(/\/\*[\s\S]*?\*\//g, '').replaceAll(/(^|\s)\/\/.*$/gm, '$1');

function importsOf(source: Source): string[] {
  const pattern =
    /(?:import|export)\s[^;'"]*?from\s*'([^']+)'|import\(\s*'([^']+)'\s*\)|^import\s*'([^']+)'/gm;
  return [...withoutComments(source.text).matchAll(pattern)].map((m) => m[1] ?? m[2] ?? m[3] ?? '');
}

const layerOf = (path: string): string => {
  const parts = path.split('/');
  if (parts[0] === 'cmd') return 'cmd';
  return (parts[1] ?? '').replace(/\.ts$/, '');
};

const resolve = (from: string, specifier: string): string =>
  normalize(join(dirname(from), specifier));

function upward(all: readonly Source[]): string[] {
  const faults: string[] = [];
  for (const source of all) {
    const own = layerOf(source.path);
    const allowed = MAY_IMPORT[own]?.split(' ');
    if (allowed === undefined) faults.push(`${source.path}: folder ${own} is not in the map`);
    for (const specifier of importsOf(source)) {
      if (!specifier.startsWith('.')) continue;
      const target = resolve(source.path, specifier);
      if (!target.startsWith('src/') && !target.startsWith('cmd/')) {
        if (!target.endsWith('.json')) faults.push(`${source.path} imports ${target}`);
        continue;
      }
      const other = layerOf(target);
      if (other !== own && !(allowed ?? []).includes(other))
        faults.push(`${source.path} imports ${target}`);
    }
  }
  return faults;
}

function cycles(all: readonly Source[]): string[] {
  const edges = new Map<string, string[]>();
  for (const source of all) {
    const targets = importsOf(source).filter((s) => s.startsWith('.'));
    edges.set(
      source.path,
      targets.map((s) => resolve(source.path, s)),
    );
  }
  const faults: string[] = [];
  const done = new Set<string>();
  const visit = (path: string, trail: readonly string[]): void => {
    if (trail.includes(path)) {
      faults.push([...trail.slice(trail.indexOf(path)), path].join(' -> '));
      return;
    }
    if (done.has(path)) return;
    for (const target of edges.get(path) ?? []) visit(target, [...trail, path]);
    done.add(path);
  };
  for (const path of edges.keys()) visit(path, []);
  return faults;
}

function strangers(all: readonly Source[]): string[] {
  const faults: string[] = [];
  for (const source of all) {
    for (const specifier of importsOf(source)) {
      if (specifier.startsWith('.')) continue;
      if (specifier.startsWith('node:')) {
        const pure = PURE.some((prefix) => source.path.startsWith(prefix));
        // `isIP` and its kin only look at text.
        if (/import \{ (?:isIP(?:v[46])?(?:, )?)+ \} from 'node:net'/.test(source.text)) continue;
        if (pure && IMPURE_MODULES.test(specifier))
          faults.push(`${source.path} is pure, imports ${specifier}`);
        continue;
      }
      const importer = IMPORTER[specifier];
      if (importer !== source.path) faults.push(`${source.path} imports ${specifier}`);
    }
  }
  return faults;
}

function words(all: readonly Source[]): string[] {
  const faults: string[] = [];
  for (const { path, text } of all) {
    const code = withoutComments(text);
    if (/process\.env\b/.test(code) && !ENV_FILES.test(path))
      faults.push(`${path} reads process.env`);
    if (/\breveal\(/.test(code) && !REVEAL_FILES.includes(path))
      faults.push(`${path} calls reveal()`);
    if (/export default/.test(code)) faults.push(`${path} has a default export`);
    if (path.endsWith('/index.ts')) faults.push(`${path} is a barrel`);
    if (!/^(#!.*\n)?\/\*\*/.test(text)) faults.push(`${path} has no header comment`);
  }
  return faults;
}

const planted = (path: string, text: string): Source[] => [{ path, text: `/** x */\n${text}` }];

test('layers import downward only', () => {
  assert.deepEqual(upward(sources()), []);
  assert.notDeepEqual(
    upward(planted('src/pool/x.ts', "import { a } from '../auth/guard.ts';")),
    [],
  );
  assert.notDeepEqual(
    upward(planted('src/wire/x.ts', "import type { A } from '../relay/plan.ts';")),
    [],
  );
  assert.notDeepEqual(upward(planted('src/odd/x.ts', '')), []);
});

test('no import goes in a circle', () => {
  assert.deepEqual(cycles(sources()), []);
  const a = planted('src/http/a.ts', "import { b } from './b.ts';");
  const b = planted('src/http/b.ts', "import { a } from './a.ts';");
  assert.notDeepEqual(cycles([...a, ...b]), []);
});

test('each package has one importer, and pure folders import no I/O', () => {
  assert.deepEqual(strangers(sources()), []);
  assert.notDeepEqual(strangers(planted('src/relay/x.ts', "import { pino } from 'pino';")), []);
  assert.notDeepEqual(strangers(planted('src/wire/x.ts', "import net from 'node:net';")), []);
});

test('process.env, reveal(), default exports, barrels and missing headers are refused', () => {
  assert.deepEqual(words(sources()), []);
  for (const bad of ['process.env.X;', 'secret.reveal();', 'export default 1;']) {
    assert.equal(words(planted('src/relay/x.ts', bad)).length, 1, bad);
  }
  assert.equal(words(planted('src/relay/index.ts', '')).length, 1);
  assert.equal(words([{ path: 'src/relay/x.ts', text: 'const a = 1;' }]).length, 1);
});
