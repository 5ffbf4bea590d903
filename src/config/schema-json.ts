/**
 * JSON Schema of the configuration for editors. Run as a program it writes
 * `config/sidekerb.schema.json`; a test fails while that file is stale.
 */

import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { CONTRACT } from './contract.ts';
import { jsonSchemaOf } from './schema.ts';

export const SCHEMA_FILE = join(import.meta.dirname, '../../config/sidekerb.schema.json');

/** The content of the schema file. */
export function schemaText(): string {
  const { $schema, ...schema } = jsonSchemaOf(CONTRACT, 'ref');
  const head = { $schema, title: 'Configuration of sidekerb' };
  return `${JSON.stringify({ ...head, ...schema }, undefined, 1)}\n`;
}

if (import.meta.main) writeFileSync(SCHEMA_FILE, schemaText());
