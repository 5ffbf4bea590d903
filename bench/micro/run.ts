/** Measures the cases of one micro benchmark in this process, and prints the results as JSON. */

import { identityDigestCases, sunk } from './identity-digest.ts';
import { createJwtDecoderCases } from './jwt-decoder.ts';
import { measureMicro, type MicroCase, type MicroResult } from './micro.ts';

const ROUNDS = 7;

const [name] = process.argv.slice(2);
const results: MicroResult[] = [];
for (const one of await casesOf(name)) results.push(...(await measureMicro(one, ROUNDS)));
process.stdout.write(`${JSON.stringify({ results, sunk: sunk() })}\n`);

async function casesOf(wanted: string | undefined): Promise<readonly MicroCase[]> {
  if (wanted === 'identity-digest') return identityDigestCases;
  if (wanted === 'jwt-decoder') return createJwtDecoderCases();
  throw new Error(`no micro benchmark is named ${wanted}`);
}
