/**
 * Declares the keys of a service's configuration as a record in the words of its file, nested as the file is. Each key has its kind of value, its
 * default and the other sources that may set it. The settings have the same nesting, with the names in camel case.
 */
import type { z } from 'zod'
import type { ReadFile } from './secrets.ts'
import type { Scalar } from './syntax.ts'
import type { Kind } from './values.ts'

type Extras = {
  /** What the key means, for the documentation. */
  readonly meaning?: string
  /** Older names that still work. */
  readonly aliases?: readonly string[]
  /** On the command line, without hyphens. */
  readonly flag?: string
  /** Whether only its flag sets it. */
  readonly isFlagOnly?: boolean
  /** Whether the file may not have the key without a value, whatever the service's form: without one more would be allowed than with one. */
  readonly needsValue?: boolean
  /** Variables of the environment without the service's prefix, the first that is set winning; by default they follow from the name. */
  readonly variables?: readonly string[]
  /** Variables of other programs, with their whole names. They count if no other source has a value. */
  readonly fallbacks?: readonly string[]
  readonly inDatabase?: boolean
  /** How a file gives the value: by `@path` in its place, or by its path in the key `<name>_file`. */
  readonly file?: '@' | '_file'
  /** Whether the value is never printed. */
  readonly isSecret?: boolean
}

/** One value. */
export class Key<Schema extends z.ZodType = z.ZodType> {
  readonly kind: Kind<Schema>
  /** As a file would have it; undefined: not set. */
  readonly default: Scalar | undefined
  readonly isRequired: boolean
  readonly extras: Extras

  constructor(
    kind: Kind<Schema>,
    initial: Scalar | undefined,
    isRequired: boolean,
    notes: readonly (string | Extras)[],
  ) {
    this.kind = kind
    this.default = initial
    this.isRequired = isRequired
    this.extras = Object.assign({}, ...notes.map(note => (typeof note === 'string' ? { meaning: note } : note)))
  }
}

/** A list of tables that have the same keys, declared by the position in the list. */
export class List<Keys extends Declaration = Declaration> {
  readonly keys: (index: number) => Keys
  readonly most: number
  /** How many entries sources other than the file set values of. */
  readonly elsewhere: (sources: Sources) => number

  constructor(keys: (index: number) => Keys, most: number, elsewhere: (sources: Sources) => number = () => 0) {
    this.keys = keys
    this.most = most
    this.elsewhere = elsewhere
  }
}

/** A table whose keys the user names, all of one kind. */
export class Open<Schema extends z.ZodType = z.ZodType> {
  readonly kind: Kind<Schema>
  readonly names: Names

  constructor(kind: Kind<Schema>, names: Names) {
    this.kind = kind
    this.names = names
  }
}

type Names = {
  readonly form: RegExp
  /** What is said of other names; undefined: the file may not have them, and variables with them are ignored. */
  readonly rule?: string
  /** Precedes the name in variables of the environment, after the service's prefix. */
  readonly variable: string
  /** The name as the settings have it, of a name in the file or of the rest of a variable. */
  readonly fromFile?: (text: string) => string
  readonly fromVariable: (text: string) => string
  readonly most: number
}

/** A table whose name ends with `_` is none in the file: its name begins the names in it. */
export type Declaration = { readonly [name: string]: Key | List | Open | Declaration }

export type Environment = Readonly<Record<string, string | undefined>>

/** Where values come from. */
export type Sources = {
  /** The text of the configuration file; `path` names it in messages. */
  readonly file?: { readonly text: string; readonly path?: string } | undefined
  readonly environment: Environment
  /** By their names without hyphens; true: given without a value. */
  readonly flags?: ReadonlyMap<string, string | true>
  /** Settings of the login role, by name, with their prefix. */
  readonly database?: Readonly<Record<string, string>>
  readonly readFile: ReadFile
}

/** A key that always has a value. The notes are its meaning and its extras. */
export const key = <Schema extends z.ZodType>(kind: Kind<Schema>, initial: Scalar, ...notes: (string | Extras)[]) =>
  new Key(kind, initial, false, notes)

/** A key that need not be set. */
export const optional = <Schema extends z.ZodType>(kind: Kind<Schema>, ...notes: (string | Extras)[]) =>
  new Key({ ...kind, schema: kind.schema.optional() }, undefined, false, notes)

/** A key that must be set. */
export const required = <Schema extends z.ZodType>(kind: Kind<Schema>, ...notes: (string | Extras)[]) =>
  new Key(kind, undefined, true, notes)

type Camel<Name extends string> = Name extends `${infer Head}-${infer Tail}`
  ? `${Camel<Head>}${Capitalize<Camel<Tail>>}`
  : Name extends `${infer Head}_${infer Tail}`
    ? `${Camel<Head>}${Capitalize<Camel<Tail>>}`
    : Name extends `${infer Head}.${infer Tail}`
      ? `${Camel<Head>}${Capitalize<Camel<Tail>>}`
      : Name

type Value<Entry> =
  Entry extends Key<infer Schema>
    ? z.output<Schema>
    : Entry extends List<infer Keys>
      ? Settings<Keys>[]
      : Entry extends Open<infer Schema>
        ? Readonly<Record<string, z.output<Schema>>>
        : Settings<Entry>

/** The value of every key, once it has been read. */
export type Settings<Keys> = { readonly [Name in keyof Keys & string as Camel<Name>]: Value<Keys[Name]> }

/** `jwtSecret` of `jwt-secret`. */
export const camelCase = (name: string): string =>
  name.replace(/[-_.]+(.?)/g, (_, letter: string) => letter.toUpperCase())

type Declared = {
  readonly name: string
  readonly key: Key
  /** Where the settings have its value. */
  readonly path: readonly string[]
}

/** The keys in the order of the declaration, without those of lists and open tables. */
export function keysOf(declaration: Declaration, prefix = '', path: readonly string[] = []): Declared[] {
  return Object.entries(declaration).flatMap(([name, entry]): Declared[] => {
    const inner = [...path, camelCase(name)]
    if (entry instanceof Key) return [{ name: prefix + name, key: entry, path: inner }]
    if (entry instanceof List || entry instanceof Open) return []
    return keysOf(entry, `${prefix}${name}${name.endsWith('_') ? '' : '.'}`, inner)
  })
}

/** Every name of the keys, older ones too, each with the name that the key has today. */
export const namesOf = (declaration: Declaration): { readonly own: string; readonly name: string }[] =>
  keysOf(declaration).flatMap(({ name: own, key: { extras } }) =>
    [own, ...(extras.aliases ?? [])].map(name => ({ own, name })),
  )
