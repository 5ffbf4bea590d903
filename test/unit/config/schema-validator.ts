/**
 * The part of JSON Schema (2020-12) that the generated schema uses, as an editor would apply it. A
 * keyword that is not known here is an error, so that the schema cannot outgrow its test.
 */

type Json = unknown;
type Schema = Readonly<Record<string, Json>>;

const ANNOTATIONS = new Set(['$schema', '$defs', 'title', 'description', 'default']);

/** Paths of values that the schema refuses. */
export function refusals(root: Schema, value: Json): string[] {
  const definitions = asSchema(root['$defs'] ?? {});
  const check = (schema: Schema, item: Json, path: string): string[] =>
    Object.entries(schema).flatMap(([keyword, wanted]): string[] => {
      if (ANNOTATIONS.has(keyword)) return [];
      const rule = RULES[keyword];
      if (rule !== undefined) return rule(wanted, item) ? [] : [`${path}: ${keyword}`];
      return applicator({ keyword, wanted, schema, item, path });
    });
  const applicator = (at: {
    keyword: string;
    wanted: Json;
    schema: Schema;
    item: Json;
    path: string;
  }): string[] => {
    const { keyword, wanted, schema, item, path } = at;
    const entries = isMap(item) ? Object.entries(item) : [];
    const known = asSchema(schema['properties'] ?? {});
    switch (keyword) {
      case '$ref':
        return check(asSchema(definitions[String(wanted).replace('#/$defs/', '')]), item, path);
      case 'anyOf':
        return (wanted as Schema[]).some((option) => check(option, item, path).length === 0)
          ? []
          : [`${path}: anyOf`];
      case 'properties':
        return entries.flatMap(([key, child]) =>
          Object.hasOwn(known, key) ? check(asSchema(known[key]), child, `${path}/${key}`) : [],
        );
      case 'additionalProperties': {
        const others = entries.filter(([key]) => !Object.hasOwn(known, key));
        if (wanted === false) return others.map(([key]) => `${path}/${key}: additionalProperties`);
        return others.flatMap(([key, child]) => check(asSchema(wanted), child, `${path}/${key}`));
      }
      case 'propertyNames':
        return entries.flatMap(([key]) => check(asSchema(wanted), key, `${path}/${key}`));
      case 'items':
        return Array.isArray(item)
          ? item.flatMap((child, index) => check(asSchema(wanted), child, `${path}/${index}`))
          : [];
      default:
        throw new Error(`the schema uses ${keyword}`);
    }
  };
  return check(root, value, '');
}

const RULES: Readonly<Record<string, (wanted: Json, item: Json) => boolean>> = {
  type: (wanted, item) => {
    if (wanted === 'object') return isMap(item);
    if (wanted === 'array') return Array.isArray(item);
    if (wanted === 'integer') return Number.isInteger(item);
    return typeof item === wanted;
  },
  const: (wanted, item) => item === wanted,
  enum: (wanted, item) => (wanted as Json[]).includes(item),
  pattern: (wanted, item) => typeof item !== 'string' || new RegExp(String(wanted), 'u').test(item),
  minLength: (wanted, item) => typeof item !== 'string' || item.length >= Number(wanted),
  maxLength: (wanted, item) => typeof item !== 'string' || item.length <= Number(wanted),
  minimum: (wanted, item) => typeof item !== 'number' || item >= Number(wanted),
  maximum: (wanted, item) => typeof item !== 'number' || item <= Number(wanted),
  minItems: (wanted, item) => !Array.isArray(item) || item.length >= Number(wanted),
  minProperties: (wanted, item) => !isMap(item) || Object.keys(item).length >= Number(wanted),
  required: (wanted, item) =>
    !isMap(item) || (wanted as string[]).every((key) => Object.hasOwn(item, key)),
};

function isMap(item: Json): item is Record<string, Json> {
  return typeof item === 'object' && item !== null && !Array.isArray(item);
}

function asSchema(value: Json): Schema {
  if (!isMap(value)) throw new Error('not a schema');
  return value;
}
