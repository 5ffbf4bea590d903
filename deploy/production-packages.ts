/**
 * Prints the npm packages that the daemon needs at run time, one folder a line.
 *
 * Starts from the dependencies of package.json and follows the lock file; packages that only build
 * others are left out. Copying is left to rootfs.sh.
 */
import { existsSync, readFileSync } from 'node:fs';

// kerberos names them as dependencies, but needs them only while it is compiled.
const BUILD_ONLY = new Set(['prebuild-install', 'node-addon-api']);

interface Package {
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly optionalDependencies?: Readonly<Record<string, string>>;
}

const lock = JSON.parse(readFileSync('package-lock.json', 'utf8')) as {
  readonly packages: Readonly<Record<string, Package>>;
};

/** The folder in which Node finds `name` when a module in `from` asks for it. */
function resolve(name: string, from: string): string | undefined {
  for (let folder = from; ; folder = folder.slice(0, Math.max(0, folder.lastIndexOf('/')))) {
    const candidate = `${folder === '' ? '' : `${folder}/`}node_modules/${name}`;
    if (lock.packages[candidate] !== undefined) return candidate;
    if (folder === '') return undefined;
  }
}

const found = new Set<string>();
const queue = [''];
for (let folder = queue.pop(); folder !== undefined; folder = queue.pop()) {
  const { dependencies, optionalDependencies } = lock.packages[folder] ?? {};
  for (const name of Object.keys({ ...dependencies, ...optionalDependencies })) {
    const next = BUILD_ONLY.has(name) ? undefined : resolve(name, folder);
    // An optional package of another platform is in the lock file only.
    if (next === undefined || found.has(next) || !existsSync(next)) continue;
    found.add(next);
    queue.push(next);
  }
}
console.log([...found].sort().join('\n'));
