/** The keys of a service's configuration, as a table that the service writes: what each is called, takes, is where nobody sets it, and means. */
// @ts-nocheck

import type { z } from 'zod'
import type { Scalar } from './syntax.ts'
import type { Kind } from './values.ts'

export type Key<Schema extends z.ZodType = z.ZodType> = Kind<Schema> & {
  /** As a file has it. */
  readonly name: string
  /** As a file would have it; undefined: the key is not set. */
  readonly default: Scalar | undefined
  readonly meaning: string
  /** Older names that still work. */
  readonly aliases: readonly string[]
  /** Whether the database may set it. */
  readonly inDatabase: boolean
  /** Whether `@path` reads the value from a file. */
  readonly inFile: boolean
  /** Whether nothing of it is ever printed. */
  readonly isSecret: boolean
}

/** By the field of the settings that holds the value. */
export type Catalogue = Readonly<Record<string, Key>>
export type Field<C extends Catalogue> = keyof C & string

type Extras = Partial<Pick<Key, 'aliases' | 'inDatabase' | 'inFile' | 'isSecret'>>
const plain = { aliases: [], inDatabase: false, inFile: false, isSecret: false }

/** A key that always has a value. */
export const key = <Schema extends z.ZodType>(
  name: string,
  kind: Kind<Schema>,
  initial: Scalar,
  meaning: string,
  extras: Extras = {},
): Key<Schema> => ({ ...plain, ...extras, ...kind, name, default: initial, meaning })

/** A key that need not be set. */
export const optional = <Schema extends z.ZodType>(
  name: string,
  kind: Kind<Schema>,
  meaning: string,
  extras: Extras = {},
): Key<z.ZodOptional<Schema>> => {
  const schema = kind.schema.optional()
  return { ...plain, ...extras, ...kind, schema, name, default: undefined, meaning }
}

type IsOptional<Schema> = Schema extends z.ZodOptional ? true : false

/** The value of every key, once it has been read. */
export type Settings<C extends Catalogue> = {
  [F in keyof C as IsOptional<C[F]['schema']> extends true ? never : F]: z.output<C[F]['schema']>
} & {
  [F in keyof C as IsOptional<C[F]['schema']> extends true ? F : never]?: z.output<C[F]['schema']>
}

/** In the order of the table. */
export const fieldsOf = <C extends Catalogue>(catalogue: C): Field<C>[] => Object.keys(catalogue) as Field<C>[] // of a constant object its type knows all keys

/** Every name of a key, the one it bears today last, so that it wins. */
export const namesOf = ({ aliases, name }: Key): string[] => [...aliases, name]

/** By every name. */
export function fieldsByName<C extends Catalogue>(catalogue: C): ReadonlyMap<string, Field<C>> {
  const entries = Object.entries(catalogue).flatMap(([field, key]) => namesOf(key).map(name => [name, field] as const))
  return new Map(entries)
}
