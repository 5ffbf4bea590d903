/**
 * The words that the contract of the file is written in: text, duration, size, section, list, secret
 * reference. The one importer of `zod`; types, defaults, faults, JSON Schema and the printed
 * effective configuration all come from the one definition that is made of these words.
 */

import * as z from 'zod';
import {
  DURATION_PATTERN,
  formatDuration,
  formatSize,
  parseDuration,
  parseSize,
  SIZE_PATTERN,
} from '../units.ts';
import type { Finding, KeyPath } from './faults.ts';

/** A definition; `Decoded` is what it makes of the file. */
export type Shape = z.ZodType;

export type Decoded<S extends Shape> = z.output<S>;

/** A definition that needs its type said, because it is made of itself. */
export type Of<T> = z.ZodType<T, T>;

/** Where a secret stands: never in the file itself. */
export type SecretReference = { readonly file: string } | { readonly env: string };

const SECRET_WANTED = 'a secret is never written in the file: use { file: PATH } or { env: NAME }';

const CONTROL = /\p{Cc}/u;

/** Text on one line; `accept` narrows it, `wanted` names what it should have been. */
export function text(wanted: string, accept: (value: string) => boolean = () => true) {
  return z
    .string({ error: wanted })
    .min(1, { error: wanted, abort: true })
    .max(4096, { error: 'too long', abort: true })
    .refine((value) => !CONTROL.test(value), {
      error: `${wanted}; no control characters`,
      abort: true,
    })
    .refine(accept, { error: wanted })
    .meta({ description: describe(wanted) });
}

/** Text on one line that `judge` finds a fault in, or none. */
export function judgedText(wanted: string, judge: (value: string) => string | undefined) {
  return text(wanted).check((context) => {
    const fault = judge(context.value);
    if (fault !== undefined) context.issues.push({ code: 'custom', message: fault, input: '' });
  });
}

/** Text that a regular expression describes; editors check it too. */
export function pattern(wanted: string, expression: RegExp) {
  return z
    .string({ error: wanted })
    .regex(expression, { error: wanted })
    .meta({ description: describe(wanted) });
}

export function flag(fallback: boolean) {
  return z.boolean({ error: 'wanted: true or false' }).default(fallback);
}

export function choice<const T extends readonly [string, ...string[]]>(values: T) {
  return z.enum(values, { error: `wanted: ${values.join(' | ')}` });
}

/** Exactly this value. */
export function only<const T extends string | number | boolean>(value: T) {
  return z.literal(value, { error: `wanted: ${value}` });
}

export function count(min: number, max: number) {
  const wanted = `wanted: a whole number from ${min} to ${max}`;
  return z.int({ error: wanted }).min(min, { error: wanted }).max(max, { error: wanted });
}

/** Milliseconds, both bounds included. */
export function duration(min: string, max: string) {
  return unit(
    { parse: parseDuration, format: formatDuration, expression: DURATION_PATTERN, example: '30s' },
    { name: 'duration', min, max },
  );
}

/** Bytes, both bounds included. */
export function size(min: string, max: string) {
  return unit(
    { parse: parseSize, format: formatSize, expression: SIZE_PATTERN, example: '64KiB' },
    { name: 'size', min, max },
  );
}

/** One of `values`, of which `off` may be written `false`. */
export function choiceWithOff<const T extends readonly [string, ...string[]]>(values: T) {
  const wanted = `wanted: ${values.join(' | ')} | off`;
  return z.union([off(), z.enum(values)], { error: wanted });
}

function off() {
  return z.codec(z.literal(['off', false]), z.literal('off'), {
    decode: () => 'off' as const,
    encode: () => 'off' as const,
  });
}

/** A map whose keys are all known. */
export function section<const T extends Record<string, Shape>>(shape: T) {
  return z.strictObject(shape, { error: 'wanted: a map' });
}

/** A section that may be left out: its defaults then stand. */
export function optionalSection<const T extends Record<string, Shape>>(shape: T) {
  // Every key of such a section is optional, which the type of a generic shape cannot say.
  return section(shape).prefault({} as z.input<ReturnType<typeof section<T>>>);
}

/** A list; a list of one may be written without brackets. */
export function list<S extends Shape>(item: S, min = 0) {
  const wanted = min > 0 ? 'wanted: at least one' : 'wanted: a list, or one entry';
  const many = z.array(item, { error: wanted }).min(min, { error: wanted });
  const either = z.union([item, many], {
    error: (issue) => (Array.isArray(issue.input) ? wanted : firstMessage(issue, wanted)),
  });
  return z.codec(either, z.array(z.any()), {
    decode: (value): unknown[] => (Array.isArray(value) ? value : [value]),
    encode: (value) => value as z.output<S>[],
  }) as unknown as z.ZodType<z.output<S>[], z.input<S> | z.input<S>[]>;
}

/** A map from names to entries; names are `[A-Za-z0-9_-]+`, at most 64 characters. */
export function named<S extends Shape>(item: S) {
  return z.record(name(), item, { error: 'wanted: a map from names to entries' });
}

/** A name that the file gives or uses: part of paths, labels and logs. */
export function name() {
  return pattern(
    'wanted: a name of A-Z a-z 0-9 _ - with at most 64 characters',
    /^[A-Za-z0-9_-]{1,64}$/,
  );
}

/** A reference to a secret. */
export function secret() {
  return z
    .union([fileReference(), envReference()], { error: SECRET_WANTED })
    .meta({ description: 'A reference to a secret: { file: PATH } or { env: NAME }' });
}

/** Something public that is read here: a path, or a reference. */
export function pathOrReference() {
  return z.union([path(), fileReference(), envReference()], {
    error: 'wanted: a path, { file: PATH } or { env: NAME }',
  });
}

/** A path, relative to the file's folder. */
export function path() {
  return text('wanted: a path');
}

/** Exactly one of the alternatives; `wanted` is the fault where none fits at all. */
export function oneOf<const T extends readonly [Shape, Shape, ...Shape[]]>(
  wanted: string,
  shapes: T,
) {
  return z.union(shapes, { error: wanted });
}

/** Claims, and other maps whose keys are not ours. An empty one would ask for nothing. */
export function freeMap<S extends Shape>(item: S) {
  return z
    .record(z.string(), item, { error: 'wanted: a map' })
    .refine((map) => Object.keys(map).length > 0, { error: 'wanted: at least one entry' })
    .meta({ minProperties: 1 });
}

/** What a person reads in an editor, from what he reads in a fault. */
function describe(wanted: string): string {
  return wanted.replace(/^wanted: /, '');
}

/** What the first alternative of a union found. */
function firstMessage(issue: z.core.$ZodRawIssue, otherwise: string): string {
  return issue.code === 'invalid_union' ? (issue.errors[0]?.[0]?.message ?? otherwise) : otherwise;
}

function fileReference() {
  return reference({ file: path() });
}

function envReference() {
  const wanted = 'wanted: the name of an environment variable';
  return reference({ env: pattern(wanted, /^[A-Za-z_][A-Za-z0-9_]*$/) });
}

/** Strict without naming the key that is too many: it may be a secret that lost its place. */
function reference<const T extends Record<string, Shape>>(shape: T) {
  return z
    .looseObject(shape)
    .refine((value) => Object.keys(value).length === 1, { error: SECRET_WANTED, abort: true })
    .meta({ additionalProperties: false });
}

interface UnitWords {
  readonly parse: (text: string) => number | undefined;
  readonly format: (value: number) => string;
  readonly expression: RegExp;
  readonly example: string;
}

function unit(words: UnitWords, bounds: { name: string; min: string; max: string }) {
  const [min, max] = [words.parse(bounds.min) ?? 0, words.parse(bounds.max) ?? 0];
  const wanted = `wanted: a ${bounds.name} such as ${words.example}, from ${bounds.min} to ${bounds.max}`;
  const written = z
    .string({ error: wanted })
    .regex(words.expression, { error: wanted, abort: true })
    .refine((value) => isBetween(words.parse(value), min, max), { error: wanted })
    .meta({ description: `A ${bounds.name} from ${bounds.min} to ${bounds.max}` });
  return z.codec(written, z.number(), {
    decode: (value) => words.parse(value) ?? 0,
    encode: (value) => words.format(value),
  });
}

function isBetween(value: number | undefined, min: number, max: number): boolean {
  return value !== undefined && value >= min && value <= max;
}

/** What a definition makes of data: a value, or findings. */
export type Outcome<T> =
  | { readonly value: T; readonly findings: readonly [] }
  | { readonly value: undefined; readonly findings: readonly ShapeFinding[] };

/** A finding, and what has to go from the data so that the rest can be judged. */
export interface ShapeFinding extends Finding {
  readonly problem: 'value' | 'missing' | 'unknown-key';
}

/** Decodes without throwing; every finding at once. */
export function decode<S extends Shape>(shape: S, data: unknown): Outcome<z.output<S>> {
  const result = shape.safeParse(data);
  if (result.success) return { value: result.data, findings: [] };
  return { value: undefined, findings: findingsOf(result.error.issues, [], data) };
}

/** The way back: decoded values as the file would have them, defaults included. */
export function encode<S extends Shape>(shape: S, value: z.output<S>): unknown {
  return z.encode(shape, value);
}

/** JSON Schema (2020-12) of what `decode` accepts; with `ref`, what is used twice is in `$defs`. */
export function jsonSchemaOf(shape: Shape, reused: 'inline' | 'ref'): Record<string, unknown> {
  return { ...z.toJSONSchema(shape, { io: 'input', target: 'draft-2020-12', reused }) };
}

type Issue = z.core.$ZodIssue;

function findingsOf(issues: readonly Issue[], prefix: KeyPath, data: unknown): ShapeFinding[] {
  return issues.flatMap((issue) => {
    const path = [
      ...prefix,
      ...issue.path.map((part) => (typeof part === 'number' ? part : String(part))),
    ];
    if (issue.code === 'unrecognized_keys') {
      return issue.keys.map((key): ShapeFinding => {
        return { path: [...path, key], at: 'key', message: 'unknown key', problem: 'unknown-key' };
      });
    }
    if (issue.code === 'invalid_key') {
      const message = issue.issues[0]?.message ?? issue.message;
      return [{ path, at: 'key', message, problem: 'unknown-key' } as const];
    }
    const branch = issue.code === 'invalid_union' ? likelyBranch(issue) : undefined;
    if (branch !== undefined) return findingsOf(branch, path, data);
    return [valueFinding(path, issue.message, data)];
  });
}

function valueFinding(path: KeyPath, message: string, data: unknown): ShapeFinding {
  const value = valueAt(data, path);
  if (value === undefined) return { path, message: `missing; ${message}`, problem: 'missing' };
  if (value === null) {
    return { path, message: 'empty; give it a value or remove the key', problem: 'value' };
  }
  return { path, message, problem: 'value' };
}

/**
 * The alternative whose faults are worth telling: the one whose shallowest fault lies deepest.
 * Where two are equally near, the message of the whole says more than either. A secret reference
 * has no such alternative: its faults could quote a secret that stands there by mistake (I5).
 */
function likelyBranch(issue: z.core.$ZodIssueInvalidUnion): readonly Issue[] | undefined {
  if (issue.message === SECRET_WANTED) return undefined;
  const depths = issue.errors.map((branch) => Math.min(...branch.map(depthOf)));
  const deepest = Math.max(...depths);
  const isClear = depths.filter((depth) => depth === deepest).length === 1;
  return deepest > 0 && isClear ? issue.errors[depths.indexOf(deepest)] : undefined;
}

/** An unknown key lies half a step deeper than a value that is wrong as a whole. */
function depthOf(issue: Issue): number {
  if (issue.code === 'unrecognized_keys') return issue.path.length + 0.5;
  if (issue.code !== 'invalid_union') return issue.path.length;
  const branch = likelyBranch(issue);
  return issue.path.length + (branch === undefined ? 0 : Math.min(...branch.map(depthOf)));
}

/** The raw value at a path; undefined where there is none. */
export function valueAt(data: unknown, path: KeyPath): unknown {
  let value = data;
  for (const part of path) {
    if (typeof value !== 'object' || value === null) return undefined;
    value = Object.hasOwn(value, part)
      ? (value as Record<string | number, unknown>)[part]
      : undefined;
  }
  return value;
}
