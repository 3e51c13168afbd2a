/**
 * Declares the keys of a service's configuration as a record, with the names and nesting of its file. Each key has a
 * type, a default and the other sources that may set it. The settings have the same nesting, with names in camel case.
 */
import type { z } from 'zod'
import type { ReadFile } from './secrets.ts'
import type { Scalar } from './syntax.ts'
import type { Kind } from './values.ts'

type Extras = {
  /** The key's description, for the documentation. */
  readonly meaning?: string
  /** Older names, which are still accepted. */
  readonly aliases?: readonly string[]
  /** The flag on the command line, without hyphens. */
  readonly flag?: string
  /** Whether only the flag sets the key. */
  readonly isFlagOnly?: boolean
  /**
   * Whether the file must not contain the key without a value, whatever the service's rule is. For this key, a missing
   * value would allow more than a value.
   */
  readonly needsValue?: boolean
  /**
   * Environment variables without the service's prefix. The first variable that is set is used. By default they follow
   * from the name.
   */
  readonly variables?: readonly string[]
  /** Variables of other programs, with full names. They are used only if no other source has a value. */
  readonly fallbacks?: readonly string[]
  readonly inDatabase?: boolean
  /** How a file supplies the value: `@path` as the value, or a path in the key `<name>_file`. */
  readonly file?: '@' | '_file'
  /** Whether the value is never printed. */
  readonly isSecret?: boolean
}

/** A key with a single value. */
export class Key<Schema extends z.ZodType = z.ZodType> {
  readonly kind: Kind<Schema>
  /** The default as a file would contain it. Undefined: not set. */
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

/** A list of tables with the same keys. Their position addresses them. */
export class List<Keys extends Declaration = Declaration> {
  readonly keys: (index: number) => Keys
  readonly most: number
  /** How many entries the sources other than the file can set. */
  readonly countInOthers: (sources: Sources) => number

  constructor(keys: (index: number) => Keys, most: number, countInOthers: (sources: Sources) => number = () => 0) {
    this.keys = keys
    this.most = most
    this.countInOthers = countInOthers
  }
}

/** A table whose keys the user names. All keys have one type. */
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
  /**
   * The error for other names. Undefined: the file must not contain other names, and variables with other names are
   * ignored.
   */
  readonly rule?: string
  /** The prefix of the name in environment variables, after the service's prefix. */
  readonly variable: string
  /** The name in the settings, from a name in the file or from the rest of a variable's name. */
  readonly fromFile?: (text: string) => string
  readonly fromVariable: (text: string) => string
  readonly most: number
}

/** A table whose name ends with `_` is not a table in the file. Its name is a prefix of its keys. */
export type Declaration = { readonly [name: string]: Key | List | Open | Declaration }

export type Environment = Readonly<Record<string, string | undefined>>

/** The sources of values. */
export type Sources = {
  /** The text of the configuration file. Messages contain `path`. */
  readonly file?: { readonly text: string; readonly path?: string } | undefined
  readonly environment: Environment
  /** The flags by name, without hyphens. True: the flag has no value. */
  readonly flags?: ReadonlyMap<string, string | true>
  /** The settings of the login role, by name with its prefix. */
  readonly database?: Readonly<Record<string, string>>
  readonly readFile: ReadFile
}

/** A key that always has a value. `notes`: its description and extras. */
export const key = <Schema extends z.ZodType>(kind: Kind<Schema>, initial: Scalar, ...notes: (string | Extras)[]) =>
  new Key(kind, initial, false, notes)

/** An optional key. */
export const optional = <Schema extends z.ZodType>(kind: Kind<Schema>, ...notes: (string | Extras)[]) =>
  new Key({ ...kind, schema: kind.schema.optional() }, undefined, false, notes)

/** A required key. */
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

/** The values of all keys after loading. */
export type Settings<Keys> = { readonly [Name in keyof Keys & string as Camel<Name>]: Value<Keys[Name]> }

/** Converts `jwt-secret` to `jwtSecret`. */
export const camelCase = (name: string): string =>
  name.replace(/[-_.]+(.?)/g, (_, letter: string) => letter.toUpperCase())

type Declared = {
  readonly name: string
  readonly key: Key
  /** The path of the key's value in the settings. */
  readonly path: readonly string[]
}

/** The keys in the order of the declaration, without the keys of lists and open tables. */
export function keysOf(declaration: Declaration, prefix = '', path: readonly string[] = []): Declared[] {
  return Object.entries(declaration).flatMap(([name, entry]): Declared[] => {
    const inner = [...path, camelCase(name)]
    if (entry instanceof Key) return [{ name: prefix + name, key: entry, path: inner }]
    if (entry instanceof List || entry instanceof Open) return []
    return keysOf(entry, `${prefix}${name}${name.endsWith('_') ? '' : '.'}`, inner)
  })
}

/** Every name of the keys, including older names, with the current name. */
export const namesOf = (declaration: Declaration): { readonly own: string; readonly name: string }[] =>
  keysOf(declaration).flatMap(({ name: own, key: { extras } }) =>
    [own, ...(extras.aliases ?? [])].map(name => ({ own, name })),
  )
