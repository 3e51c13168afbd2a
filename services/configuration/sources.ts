/**
 * Gathers what each source gives for each key, the higher source winning: default, file, environment, database (PostgREST docs,
 * "Configuration"). Says what was given and where; whether it is right is decided later.
 */

import { type Field, fieldOf, fields, keys } from '../rest/configuration/keys.ts'
import type { Problem, Source } from './errors.ts'
import { nearest } from './nearest.ts'
import type { Binding, Scalar } from './syntax.ts'

export type Given = { value: Scalar; source: Source }
export type Gathered = {
  settings: Map<Field, Given>
  /** By the name after `app.settings.`, in small letters. */
  appSettings: Map<string, Given>
  problems: Problem[]
}

const appPrefix = 'app.settings.'
const environmentPrefix = 'ESPALIER_REST_'
const appEnvironmentPrefix = `${environmentPrefix}APP_SETTINGS_`
/** Lower first. */
const databasePrefixes = ['pgrst.', 'rst.']

const underscored = (name: string) => name.replaceAll('-', '_')

/** Under every name a key has, the one it bears today last, so that it wins. */
const namesOf = (field: Field): string[] => [...keys[field].aliases, keys[field].name]

export function gather(
  bindings: readonly Binding[],
  environment: Record<string, string | undefined>,
  database: Readonly<Record<string, string>>,
): Gathered {
  const gathered: Gathered = { settings: new Map(), appSettings: new Map(), problems: [] }
  fromFile(bindings, gathered)
  fromEnvironment(environment, gathered)
  if (usesDatabase(gathered)) fromDatabase(database, gathered)
  return gathered
}

/** Of a key bound twice the last counts, as in PostgREST; today's name beats an older one. */
function fromFile(bindings: readonly Binding[], { settings, appSettings, problems }: Gathered): void {
  const byName = new Map(bindings.map(binding => [binding.key, binding]))
  for (const { key, value, line } of byName.values()) {
    const source: Source = { kind: 'file', line }
    if (key.startsWith(appPrefix)) appSettings.set(key.slice(appPrefix.length).toLowerCase(), { value, source })
    else if (!fieldOf.has(key)) problems.push({ key, source, rule: unknown(key) })
  }
  for (const field of fields()) {
    for (const name of namesOf(field)) {
      const binding = byName.get(name)
      if (binding) settings.set(field, { value: binding.value, source: { kind: 'file', line: binding.line } })
    }
  }
}

function unknown(key: string): string {
  // A long name has no near one, and looking for it costs its length.
  const meant = key.length <= 100 ? nearest(key, [...fieldOf.keys()]) : undefined
  return `is not a key${meant === undefined ? '' : `; the nearest one is ${meant}`}`
}

/** Other variables of the prefix are left alone: Kubernetes names variables after Services. */
function fromEnvironment(environment: Record<string, string | undefined>, { settings, appSettings }: Gathered): void {
  for (const field of fields()) {
    for (const name of namesOf(field)) {
      const variable = environmentPrefix + underscored(name).toUpperCase()
      const value = environment[variable]
      if (value !== undefined) settings.set(field, { value, source: { kind: 'environment', variable } })
    }
  }
  for (const [variable, value] of Object.entries(environment)) {
    if (value === undefined || !variable.startsWith(appEnvironmentPrefix)) continue
    const name = variable.slice(appEnvironmentPrefix.length).toLowerCase()
    appSettings.set(name, { value, source: { kind: 'environment', variable } })
  }
}

/** Whether db-config lets the database have its say. A value that is no truth is refused later; until then the default holds. */
function usesDatabase({ settings }: Gathered): boolean {
  const given = settings.get('dbConfig')
  const parsed = keys.dbConfig.schema.safeParse(given?.value ?? '')
  return parsed.success ? parsed.data : true
}

/** Settings that a database may not make are left alone, as in PostgREST: whoever owns a database does not own the server. */
function fromDatabase(database: Readonly<Record<string, string>>, { settings }: Gathered): void {
  for (const field of fields().filter(field => keys[field].inDatabase)) {
    for (const prefix of databasePrefixes) {
      for (const name of namesOf(field)) {
        const setting = prefix + underscored(name)
        const value = Object.hasOwn(database, setting) ? database[setting] : undefined
        if (value !== undefined) settings.set(field, { value, source: { kind: 'database', setting } })
      }
    }
  }
}
