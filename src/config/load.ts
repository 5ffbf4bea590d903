/**
 * From a file to a `Config`, or to all its faults. Changes nothing outside its result (I10).
 *
 * 1. YAML with places. 2. The form of every value. 3. What is not built yet. 4. What needs several
 * keys to judge. 5. Credentials, read and parsed. A later step says nothing about a place where an
 * earlier one found a fault.
 */

import { checkClients } from './checks/clients.ts';
import type { CheckContext } from './checks/context.ts';
import { checkIdentities } from './checks/identities.ts';
import { checkListeners } from './checks/listeners.ts';
import { checkPrincipals } from './checks/principals.ts';
import { checkUpstreams } from './checks/upstreams.ts';
import type { Config, EffectiveConfig } from './config.ts';
import type { Contract } from './contract.ts';
import { CredentialLoader } from './credentials.ts';
import type { Fault, Finding, KeyPath } from './faults.ts';
import { formatPath, isWithin, sortFaults } from './faults.ts';
import { notBuilt } from './not-built.ts';
import { decodeRemainder } from './remainder.ts';
import { resolveConfig } from './resolve.ts';
import { valueAt } from './schema.ts';
import type { ConfigIo } from './secrets.ts';
import { decodeUtf8, readFault, ReferenceReader, systemIo } from './secrets.ts';
import { NO_STORES, type StoreTable } from './store-table.ts';
import type { ParsedDocument } from './yaml-document.ts';
import { parseYaml } from './yaml-document.ts';

export type LoadResult =
  | { readonly config: Config; readonly faults: readonly [] }
  | { readonly config: undefined; readonly faults: readonly Fault[] };

export interface LoadOptions {
  /** Default: PKCS#12 stores are faults. */
  readonly stores?: StoreTable;
  /** Fingerprints of certificates that callers are shown now: their end is a warning, no fault. */
  readonly shown?: ReadonlySet<string>;
  /** A step that a test may leave out, to see what a later one says of parts not built yet. */
  readonly findNotBuilt?: (contract: Contract) => Finding[];
}

const CHECKS = [
  checkPrincipals,
  checkUpstreams,
  checkListeners,
  checkClients,
  checkIdentities,
] as const;

/** Loads `file`. Throws nothing; whatever is wrong is a fault with a place. */
export function loadConfig(
  file: string,
  io: ConfigIo = systemIo,
  options: LoadOptions = {},
): LoadResult {
  let bytes: Uint8Array;
  try {
    bytes = io.readFile(file);
  } catch (error) {
    return refuse(file, `the file ${readFault(error)}`);
  }
  const text = decodeUtf8(bytes);
  return text === undefined
    ? refuse(file, 'the file is not text in UTF-8')
    : loadText(file, text, io, options);
}

/** The same for a text that was read before. */
export function loadText(
  file: string,
  text: string,
  io: ConfigIo,
  options: LoadOptions = {},
): LoadResult {
  const document = parseYaml(text);
  if (document.data === undefined)
    return { config: undefined, faults: documentFaults(file, document) };
  const { findings, config } = judge(document.data, { file, io, options });
  const faults = sortFaults([
    ...documentFaults(file, document),
    ...findings.map((finding) =>
      faultOf(file, finding, document.placeOf(finding.path, finding.at ?? 'value')),
    ),
  ]);
  if (faults.length > 0 || config === undefined) return { config: undefined, faults };
  return { config, faults: [] };
}

/** The configuration in force as plain data; secrets are the references that the file has. */
export function effectiveConfig(config: Config): EffectiveConfig {
  return config.effective;
}

interface Loading {
  readonly file: string;
  readonly io: ConfigIo;
  readonly options: LoadOptions;
}

function judge(
  data: unknown,
  { file, io, options }: Loading,
): { findings: Finding[]; config: Config | undefined } {
  const remainder = decodeRemainder(data);
  const report = new Report(remainder.findings, remainder.touched);
  const { contract } = remainder;
  if (contract === undefined) return { findings: report.findings, config: undefined };
  const inFile = (finding: Finding): Finding => ({
    ...finding,
    path: remainder.toFile(finding.path),
  });
  const context: CheckContext = {
    contract,
    names: { principals: namesIn(data, 'principals'), upstreams: namesIn(data, 'upstreams') },
    isWritten: (path) => valueAt(data, remainder.toFile(path)) !== undefined,
  };
  report.add((options.findNotBuilt ?? notBuilt)(contract).map(inFile));
  report.add(CHECKS.flatMap((check) => check(context)).map(inFile));
  const { stores = NO_STORES, shown = new Set() } = options;
  const wall = io.wall?.() ?? Date.now();
  const credentials = new CredentialLoader(new ReferenceReader(io, file), { stores, shown, wall });
  const config = resolveConfig(file, contract, credentials);
  report.add(credentials.findings.map(inFile));
  return { findings: report.findings, config };
}

/** Findings of one step after the other; a place that was touched before is left alone. */
class Report {
  readonly findings: Finding[];
  readonly #touched: KeyPath[];

  constructor(findings: readonly Finding[], touched: readonly KeyPath[]) {
    this.findings = [...findings];
    this.#touched = [...touched];
  }

  add(findings: readonly Finding[]): void {
    const fresh = findings.filter(
      ({ path, basis = [] }) => ![path, ...basis].some((place) => this.#isTouched(place)),
    );
    this.findings.push(...fresh);
    this.#touched.push(...fresh.map(({ path }) => path));
  }

  #isTouched(path: KeyPath): boolean {
    return this.#touched.some((other) => isWithin(path, other) || isWithin(other, path));
  }
}

function namesIn(data: unknown, key: string): ReadonlySet<string> {
  const entries = valueAt(data, [key]);
  return new Set(typeof entries === 'object' && entries !== null ? Object.keys(entries) : []);
}

function documentFaults(file: string, document: ParsedDocument): Fault[] {
  return document.faults.map(({ finding, place }) => faultOf(file, finding, place));
}

function faultOf(file: string, finding: Finding, place: { line: number; column: number }): Fault {
  const { path, message, hint, kind = 'config' } = finding;
  return { file, ...place, path: formatPath(path), message, hint, kind };
}

function refuse(file: string, message: string): LoadResult {
  const fault: Fault = {
    file,
    line: 1,
    column: 1,
    path: '',
    message,
    hint: undefined,
    kind: 'config',
  };
  return { config: undefined, faults: [fault] };
}
