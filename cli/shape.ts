/**
 * Checks the shape of JSON in files and responses. Does not use Zod, because loading Zod takes longer than starting
 * Node. A check does not copy the value, so unknown fields remain.
 */
import { isRecord } from '../values/record.ts'

export type Shape<T> = (value: unknown) => value is T
export type ShapeType<S> = S extends Shape<infer T> ? T : never

type Fields = Readonly<Record<string, Shape<unknown>>>
type OptionalNames<F extends Fields> = { [K in keyof F]: undefined extends ShapeType<F[K]> ? K : never }[keyof F]
type ObjectType<F extends Fields> = { [K in Exclude<keyof F, OptionalNames<F>>]: ShapeType<F[K]> } & {
  [K in OptionalNames<F>]?: ShapeType<F[K]>
}

export const string = (value: unknown): value is string => typeof value === 'string'
export const number = (value: unknown): value is number => Number.isFinite(value)
export const boolean = (value: unknown): value is boolean => typeof value === 'boolean'
/** Accepts an empty response, which is parsed as undefined. */
export const nothing = (value: unknown): value is undefined => value === undefined

export const optional =
  <T>(shape: Shape<T>) =>
  (value: unknown): value is T | undefined =>
    value === undefined || shape(value)

export const nullish =
  <T>(shape: Shape<T>) =>
  (value: unknown): value is T | null | undefined =>
    value === undefined || value === null || shape(value)

/** Accepts a string of a limited length, in UTF-16 units. */
export const sized =
  (least: number, most: number) =>
  (value: unknown): value is string =>
    string(value) && value.length >= least && value.length <= most

export const matching =
  (pattern: RegExp) =>
  (value: unknown): value is string =>
    string(value) && pattern.test(value)

export const list =
  <T>(shape: Shape<T>) =>
  (value: unknown): value is T[] =>
    Array.isArray(value) && value.every(shape)

/** Reads only the object's own fields, because each object inherits names such as `constructor`. */
const fieldOf = (value: Readonly<Record<string, unknown>>, name: string): unknown =>
  Object.hasOwn(value, name) ? value[name] : undefined

export const object =
  <F extends Fields>(fields: F) =>
  (value: unknown): value is ObjectType<F> =>
    isRecord(value) && Object.entries(fields).every(([name, shape]) => shape(fieldOf(value, name)))

/** Accepts an object that has only these fields. */
export const exactly =
  <F extends Fields>(fields: F) =>
  (value: unknown): value is ObjectType<F> =>
    object(fields)(value) && Object.keys(value).every(name => Object.hasOwn(fields, name))

/** Accepts a record in which each key matches `name`, and each value matches `shape`. */
export const byName =
  <T>(name: Shape<string>, shape: Shape<T>) =>
  (value: unknown): value is Record<string, T> =>
    isRecord(value) && Object.entries(value).every(([key, one]) => name(key) && shape(one))
