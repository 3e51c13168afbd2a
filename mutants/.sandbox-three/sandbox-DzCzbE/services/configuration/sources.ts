/**
 * Gathers what each source gives for each key, the higher source winning: default, file, environment, database. Says what was given and where; whether it is right is
 * decided later.
 */
// @ts-nocheck

import { type Catalogue, type Field, fieldsByName, fieldsOf, namesOf } from './catalogue.ts'
import type { Problem, Source } from './errors.ts'
import { nearest } from './nearest.ts'
import type { Binding, Scalar } from './syntax.ts'

export type Environment = Readonly<Record<string, string | undefined>>

/** What makes the configuration of one service its own. */
export type ConfigurationForm<C extends Catalogue> = {
  readonly catalogue: C
  /**
   * The syntax of its file.
   * @throws ConfigurationSyntaxError
   */
  readonly parse: (text: string, environment: Environment) => readonly Binding[]
  /** Of the variables that set keys; the key's name follows in capitals, with underscores. */
  readonly environmentPrefix: string
  /** Of the settings in the database that set keys, the lower first; the key's name follows with underscores. */
  readonly databasePrefixes: readonly string[]
  /** Whether the database has its say, by what the file and the environment give. */
  readonly heedsDatabase: (given: ReadonlyMap<Field<C>, Given>) => boolean
  /** Keys that begin so are named by whoever sets them, and hold any text. */
  readonly openPrefix?: string
}

type Given = { value: Scalar; source: Source }
export type Gathered<F extends string> = {
  settings: Map<F, Given>
  /** By the name after the open prefix, in small letters. */
  open: Map<string, Given>
  problems: Problem[]
}

const underscored = (name: string) => name.replaceAll(/[-.]/g, '_')

export function gather<C extends Catalogue>(
  form: ConfigurationForm<C>,
  bindings: readonly Binding[],
  environment: Environment,
  database: Readonly<Record<string, string>>,
): Gathered<Field<C>> {
  const gathered: Gathered<Field<C>> = { settings: new Map(), open: new Map(), problems: [] }
  fromFile(form, bindings, gathered)
  fromEnvironment(form, environment, gathered)
  if (form.heedsDatabase(gathered.settings)) fromDatabase(form, database, gathered)
  return gathered
}

/** The names that set each field, in the order in which they win. */
const names = <C extends Catalogue>(catalogue: C): (readonly [Field<C>, string])[] =>
  fieldsOf(catalogue).flatMap(field => namesOf(keyOf(catalogue, field)).map(name => [field, name] as const))

/** A field of the table is in it. */
export const keyOf = <C extends Catalogue>(catalogue: C, field: Field<C>): C[Field<C>] => catalogue[field]

/** Of a key bound twice the last counts; today's name beats an older one. */
function fromFile<C extends Catalogue>(
  { catalogue, openPrefix }: ConfigurationForm<C>,
  bindings: readonly Binding[],
  { settings, open, problems }: Gathered<Field<C>>,
): void {
  const known = fieldsByName(catalogue)
  const byName = new Map(bindings.map(binding => [binding.key, binding]))
  for (const { key, value, line } of byName.values()) {
    const source: Source = { kind: 'file', line }
    if (openPrefix !== undefined && key.startsWith(openPrefix)) {
      open.set(key.slice(openPrefix.length).toLowerCase(), { value, source })
    } else if (!known.has(key)) problems.push({ key, source, rule: unknown(key, [...known.keys()]) })
  }
  for (const [field, name] of names(catalogue)) {
    const binding = byName.get(name)
    if (binding) settings.set(field, { value: binding.value, source: { kind: 'file', line: binding.line } })
  }
}

function unknown(key: string, known: readonly string[]): string {
  // A long name has no near one, and looking for it costs its length.
  const meant = key.length <= 100 ? nearest(key, known) : undefined
  return `is not a key${meant === undefined ? '' : `; the nearest one is ${meant}`}`
}

/** Other variables of the prefix are left alone: Kubernetes names variables after Services. */
function fromEnvironment<C extends Catalogue>(
  { catalogue, environmentPrefix, openPrefix }: ConfigurationForm<C>,
  environment: Environment,
  { settings, open }: Gathered<Field<C>>,
): void {
  for (const [field, name] of names(catalogue)) {
    const variable = environmentPrefix + underscored(name).toUpperCase()
    const value = environment[variable]
    if (value !== undefined) settings.set(field, { value, source: { kind: 'environment', variable } })
  }
  if (openPrefix === undefined) return
  const prefix = environmentPrefix + underscored(openPrefix).toUpperCase()
  for (const [variable, value] of Object.entries(environment)) {
    if (value === undefined || !variable.startsWith(prefix)) continue
    open.set(variable.slice(prefix.length).toLowerCase(), { value, source: { kind: 'environment', variable } })
  }
}

/** Settings that a database may not make are left alone: whoever owns a database does not own the server. */
function fromDatabase<C extends Catalogue>(
  { catalogue, databasePrefixes }: ConfigurationForm<C>,
  database: Readonly<Record<string, string>>,
  { settings }: Gathered<Field<C>>,
): void {
  for (const field of fieldsOf(catalogue)) {
    const key = keyOf(catalogue, field)
    if (!key.inDatabase) continue
    for (const prefix of databasePrefixes) {
      for (const name of namesOf(key)) {
        const setting = prefix + underscored(name)
        const value = Object.hasOwn(database, setting) ? database[setting] : undefined
        if (value !== undefined) settings.set(field, { value, source: { kind: 'database', setting } })
      }
    }
  }
}
