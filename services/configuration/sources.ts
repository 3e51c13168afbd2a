/** Finds the values of a key: its names in each source, and the value of the source with the highest precedence. */
import type { Environment, Key, Sources } from './declaration.ts'
import { type Document, nameOf, type Path, type Table } from './document.ts'
import type { Source } from './errors.ts'

/** How a service is configured, besides its keys. */
export type Form = {
  /** @throws ConfigurationSyntaxError */
  readonly parse: (file: NonNullable<Sources['file']>, environment: Environment) => Document
  /** The prefix of environment variables. Undefined: the environment sets no keys. */
  readonly environmentPrefix?: string
  /**
   * A key's variables without the prefix. The first variable that is set is used. The default is the key's name in
   * capitals.
   */
  readonly variablesOf?: (name: string) => readonly string[]
  /** The prefixes of settings in the database, in ascending precedence. */
  readonly databasePrefixes?: readonly string[]
  /** Whether an empty text unsets a key. By default, an empty variable or flag counts as missing. */
  readonly emptyUnsets?: boolean
  /**
   * Whether a key without a value in the file is ignored, even if it is unknown. By default the key is refused, and so
   * is a list whose entries are all empty: the missing value may be a restriction.
   */
  readonly emptyIsAbsent?: boolean
}

/** The sources in ascending precedence. */
const ranks = ['fallback', 'file', 'environment', 'flag', 'database'] as const
type Rank = (typeof ranks)[number]
export type SourcedValue = { readonly value: unknown; readonly source: Source; readonly rank: number }

export const sourced = (value: unknown, source: Source, rank: Rank): SourcedValue => ({
  value,
  source,
  rank: ranks.indexOf(rank),
})

/** A key's names in each source. The last name takes precedence. */
type KeySources = {
  readonly paths: readonly Path[]
  readonly variables: readonly string[]
  readonly fallbacks?: readonly string[] | undefined
  readonly flag?: string | undefined
  readonly settings?: readonly string[]
}

/** The sources of a configuration. */
export type Origin = { readonly form: Form; readonly sources: Sources; readonly document: Document }

const underscored = (name: string): string => name.replaceAll(/[-.]/g, '_')
const defaultVariables = (name: string): string[] => [underscored(name).toUpperCase()]
const beside = (path: Path, name: string): Path => [...path.slice(0, -1), name]

export const isAbsent = (value: unknown): boolean => value === undefined || value === null

/** The key `password_file` next to `password`. */
export const fileKeyOf = (path: Path): Path => beside(path, `${path.at(-1)}_file`)

/** Every name in the file that sets the key. The current name is last. */
export const pathsOf = ({ aliases = [], isFlagOnly }: Key['extras'], path: Path): Path[] =>
  isFlagOnly ? [] : [...aliases.map(alias => beside(path, alias)), path]

function variablesOf({ aliases = [], isFlagOnly, variables }: Key['extras'], path: Path, form: Form): string[] {
  const { environmentPrefix, variablesOf: usual = defaultVariables } = form
  if (environmentPrefix === undefined || isFlagOnly) return []
  const names = [...aliases.map(alias => beside(path, alias)), path].map(nameOf)
  return names.flatMap(name => (variables ?? usual(name)).toReversed()).map(variable => environmentPrefix + variable)
}

function find(keySources: KeySources, table: Table, { form, sources, document }: Origin): SourcedValue | undefined {
  const { paths, variables, fallbacks = [], flag, settings = [] } = keySources
  const { environment, flags, database = {} } = sources
  const isSet = (value: unknown) => !isAbsent(value) && (value !== '' || form.emptyUnsets === true)
  const variable = (name: string, rank: Rank) =>
    isSet(environment[name]) ? sourced(environment[name], { kind: 'environment', variable: name }, rank) : undefined
  const flagged = flag === undefined ? undefined : flags?.get(flag)
  const candidates = [
    ...fallbacks.map(name => variable(name, 'fallback')),
    ...paths.map(path => {
      const name = String(path.at(-1))
      const value = Object.hasOwn(table, name) ? table[name] : undefined
      return isAbsent(value) ? undefined : sourced(value, document.sourceOf(path), 'file')
    }),
    ...variables.map(name => variable(name, 'environment')),
    flag !== undefined && isSet(flagged) ? sourced(flagged, { kind: 'flag', flag }, 'flag') : undefined,
    ...settings.map(setting => {
      const value = Object.hasOwn(database, setting) ? database[setting] : undefined
      return value === undefined ? undefined : sourced(value, { kind: 'database', setting }, 'database')
    }),
  ]
  return candidates.findLast(candidate => candidate !== undefined)
}

/** `table`: the table of the file that contains the key. */
export function findValue(extras: Key['extras'], path: Path, table: Table, origin: Origin): SourcedValue | undefined {
  const { aliases = [], fallbacks, flag, inDatabase = false } = extras
  const { databasePrefixes = [] } = origin.form
  const names = [...aliases, String(path.at(-1))].map(name => underscored(nameOf(beside(path, name))))
  const settings = inDatabase ? databasePrefixes.flatMap(prefix => names.map(name => prefix + name)) : []
  const variables = variablesOf(extras, path, origin.form)
  return find({ paths: pathsOf(extras, path), variables, fallbacks, flag, settings }, table, origin)
}

/** The path of the file that contains the value, from the key `<name>_file` or its variable. */
export function findFile(extras: Key['extras'], path: Path, table: Table, origin: Origin): SourcedValue | undefined {
  const variables = variablesOf(extras, path, origin.form).map(variable => `${variable}_FILE`)
  return find({ paths: [fileKeyOf(path)], variables }, table, origin)
}
