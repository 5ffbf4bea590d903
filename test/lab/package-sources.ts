/**
 * What package managers fetch: a tiny npm registry and a tiny Debian repository, made by this machine's
 * own tar and dpkg-deb. Where they are served is decided by the tests.
 */
import { createHash, randomBytes } from 'node:crypto';
import { mkdirSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { runClient } from '../support/client-programs.ts';
import type { SiteAnswer, SiteRequest } from '../support/site.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

/** Larger than any buffer on the way. */
const CONTENT_BYTES = 1_200_000;

/** Files by path; everything else is 404. */
export type Files = ReadonlyMap<string, Uint8Array>;

/** Answers a site's requests from files. */
export const answerFrom =
  (files: Files) =>
  ({ path }: SiteRequest): SiteAnswer => {
    // apt asks for `/./Packages`.
    const body = files.get(new URL(path, 'http://files.test').pathname);
    return body === undefined ? { status: 404 } : { body };
  };

/** One npm package, `lab-package` 1.0.0, with a large random file `content.bin`. */
export interface NpmPackage {
  readonly content: Buffer;
  /** Answers as the registry at `url`, which the description of the package names. */
  answerAt(url: string): (request: SiteRequest) => SiteAnswer;
}

/** Makes the package. */
export async function makeNpmPackage(): Promise<NpmPackage> {
  const folder = mkdtempSync(join(temporaryFolder(), 'npm-'));
  mkdirSync(join(folder, 'package'));
  const description = { name: 'lab-package', version: '1.0.0' };
  writeFileSync(join(folder, 'package', 'package.json'), JSON.stringify(description));
  const content = randomBytes(CONTENT_BYTES);
  writeFileSync(join(folder, 'package', 'content.bin'), content);
  await runClient('tar', ['-czf', 'package.tgz', 'package'], { folder });
  const tarball = readFileSync(join(folder, 'package.tgz'));
  const integrity = `sha512-${createHash('sha512').update(tarball).digest('base64')}`;
  return {
    content,
    answerAt: (url) => {
      const dist = { tarball: `${url}/lab-package/-/lab-package-1.0.0.tgz`, integrity };
      const about = {
        name: 'lab-package',
        'dist-tags': { latest: '1.0.0' },
        versions: { '1.0.0': { ...description, dist } },
      };
      return answerFrom(
        new Map<string, Uint8Array>([
          ['/lab-package', Buffer.from(JSON.stringify(about))],
          [new URL(dist.tarball).pathname, tarball],
        ]),
      );
    },
  };
}

/** A flat Debian repository of some packages, each with a large random file. */
export interface DebianRepository {
  readonly packages: readonly string[];
  readonly files: Files;
  /** The file of a package under its name in the repository. */
  fileOf(name: string): Uint8Array;
}

/** Makes a repository of `count` packages. */
export async function makeDebianRepository(count: number): Promise<DebianRepository> {
  const folder = mkdtempSync(join(temporaryFolder(), 'debian-'));
  const packages = Array.from({ length: count }, (_, i) => `lab-package-${i}`);
  const files = new Map<string, Uint8Array>();
  const index: string[] = [];
  for (const name of packages) {
    const control = `Package: ${name}\nVersion: 1.0\nArchitecture: all\nMaintainer: Lab <lab@lab.test>\nDescription: of the lab\n`;
    mkdirSync(join(folder, name, 'DEBIAN'), { recursive: true });
    writeFileSync(join(folder, name, 'DEBIAN', 'control'), control);
    writeFileSync(join(folder, name, 'content.bin'), randomBytes(CONTENT_BYTES));
    const file = `${name}_1.0_all.deb`;
    await runClient('dpkg-deb', ['--root-owner-group', '-Znone', '--build', name, file], {
      folder,
    });
    const bytes = readFileSync(join(folder, file));
    files.set(`/${file}`, bytes);
    index.push(`${control}Filename: ./${file}\nSize: ${bytes.length}\nSHA256: ${sha256(bytes)}\n`);
  }
  const list = Buffer.from(index.join('\n'));
  files.set('/Packages', list);
  files.set(
    '/Release',
    Buffer.from(
      `Date: ${new Date().toUTCString()}\nSHA256:\n ${sha256(list)} ${list.length} Packages\n`,
    ),
  );
  return {
    packages,
    files,
    fileOf: (name) => files.get(`/${name}_1.0_all.deb`) ?? new Uint8Array(),
  };
}

/** The settings file that makes apt-get use `url` through `proxy`, and nothing of this machine. */
export function aptSettings(url: string, proxy: string, caFile: string): string {
  const folder = mkdtempSync(join(temporaryFolder(), 'apt-'));
  for (const name of ['etc/none', 'lists/partial', 'cache/archives/partial']) {
    mkdirSync(join(folder, name), { recursive: true });
  }
  writeFileSync(join(folder, 'etc', 'sources.list'), `deb [trusted=yes] ${url}/ ./\n`);
  writeFileSync(join(folder, 'status'), '');
  const settings = {
    'Dir::Etc': join(folder, 'etc'),
    'Dir::Etc::parts': 'none',
    'Dir::Etc::main': 'none',
    'Dir::Etc::sourceparts': 'none',
    'Dir::Etc::preferencesparts': 'none',
    'Dir::Etc::trustedparts': 'none',
    'Dir::State': folder,
    'Dir::State::status': join(folder, 'status'),
    'Dir::Cache': join(folder, 'cache'),
    'Dir::Log': folder,
    'APT::Sandbox::User': '',
    'Acquire::Languages': 'none',
    'Acquire::Retries': '0',
    'Acquire::http::Proxy': proxy,
    'Acquire::https::Proxy': proxy,
    'Acquire::https::CAInfo': caFile,
  };
  const file = join(folder, 'apt.conf');
  writeFileSync(
    file,
    Object.entries(settings)
      .map(([name, value]) => `${name} "${value}";\n`)
      .join(''),
  );
  return file;
}

function sha256(bytes: Uint8Array): string {
  return createHash('sha256').update(bytes).digest('hex');
}
