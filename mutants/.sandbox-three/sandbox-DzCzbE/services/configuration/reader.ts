/**
 * Reads the configuration of a service, whatever keys and syntax it has: from its file, the environment and the database, each value checked by its key. Reads nothing itself
 * but what it is handed. What concerns several keys together is the service's to check.
 */
// @ts-nocheck

import { type Catalogue, type Field, fieldsOf, type Settings } from './catalogue.ts'
import { ConfigurationError, type Problem, type Source } from './errors.ts'
import { type ReadFile, type ReadText, readNamedFile } from './secrets.ts'
import { type ConfigurationForm, type Environment, type Gathered, gather, keyOf } from './sources.ts'
import type { Scalar } from './syntax.ts'
import { MAX_VALUE_LENGTH } from './values.ts'

export type Sources = {
  /** Text of the configuration file. */
  file?: string
  environment: Environment
  /** Settings of the login role, by name, with their prefix. */
  database?: Readonly<Record<string, string>>
  readFile: ReadFile
}

export type Reading<C extends Catalogue> = {
  readonly settings: Settings<C>
  /** What stands behind the open prefix, by its name in small letters. */
  readonly open: Readonly<Record<string, string>>
  /** What is wrong so far; the service adds what it finds, and refuses all at once. */
  readonly problems: Problem[]
  /** What is wrong with a key, where it was given. */
  problem(field: Field<C>, rule: string): Problem
}

/** What Postgres takes as the name of a setting, as far as a file and the environment can both write it. */
const settingName = /^[a-z_][a-z0-9_]*(?:\.[a-z_][a-z0-9_]*)*$/
const MAX_OPEN_NAME = 200
const MAX_OPEN_KEYS = 1_000

/**
 * @throws ConfigurationSyntaxError where the file is not of the syntax
 * @throws ConfigurationError with everything that is wrong, where a value breaks its key's rule
 */
export function readSettings<C extends Catalogue>(
  form: ConfigurationForm<C>,
  { file = '', environment, database = {}, readFile }: Sources,
): Reading<C> {
  const { catalogue } = form
  const gathered = gather(form, form.parse(file, environment), environment, database)
  const problem = (field: Field<C>, rule: string): Problem => ({
    key: keyOf(catalogue, field).name,
    source: gathered.settings.get(field)?.source ?? { kind: 'default' },
    rule,
  })
  const { values, refused } = readValues(catalogue, gathered, readFile)
  const problems = [
    ...refused.map(({ field, rule }) => problem(field, rule)),
    ...gathered.problems,
    ...openProblems(gathered, form.openPrefix ?? ''),
  ]
  const parsed = fieldsOf(catalogue).map(field => {
    const result = keyOf(catalogue, field).schema.safeParse(values.get(field))
    return { field, result }
  })
  const broken = parsed.filter(({ result }) => !result.success)
  if (broken.length > 0) {
    const rules = broken.map(({ field }) => problem(field, keyOf(catalogue, field).rule))
    throw new ConfigurationError([...problems, ...rules])
  }
  // Each value is what the schema of its own field makes; Object.fromEntries forgets which.
  const settings = Object.fromEntries(parsed.map(({ field, result }) => [field, result.data])) as Settings<C>
  const open = Object.fromEntries([...gathered.open].map(([name, { value }]) => [name, String(value)]))
  return { settings, open, problems, problem }
}

/** What the schemas are to judge, by field: what was given, or else the default. */
function readValues<C extends Catalogue>(
  catalogue: C,
  gathered: Gathered<Field<C>>,
  readFile: ReadFile,
): { values: ReadonlyMap<Field<C>, Scalar | undefined>; refused: { field: Field<C>; rule: string }[] } {
  const values = new Map<Field<C>, Scalar | undefined>()
  const refused: { field: Field<C>; rule: string }[] = []
  for (const field of fieldsOf(catalogue)) {
    const key = keyOf(catalogue, field)
    const given = gathered.settings.get(field)
    // An empty text unsets a key, as in PostgREST. A list may be empty, and an empty one says so.
    const isUnset = given === undefined || (given.value === '' && key.type !== 'list')
    values.set(field, isUnset ? key.default : given.value)
    if (isUnset || !key.inFile || typeof given.value !== 'string' || !given.value.startsWith('@')) continue
    const read = readSecretFile(given.value.slice(1), given.source, readFile)
    values.set(field, read.kind === 'text' ? read.text : key.default)
    if (read.kind === 'refused') refused.push({ field, rule: read.rule })
  }
  return { values, refused }
}

/** Whoever may set keys in the database may not have files of the server read. */
function readSecretFile(path: string, source: Source, readFile: ReadFile): ReadText {
  if (source.kind !== 'database') return readNamedFile(path, readFile)
  return { kind: 'refused', rule: 'must not name a file from within the database' }
}

function openProblems({ open }: Gathered<string>, prefix: string): Problem[] {
  const problems: Problem[] = []
  for (const [name, { value, source }] of open) {
    const key = `${prefix}${name.slice(0, MAX_OPEN_NAME)}`
    if (name.length > MAX_OPEN_NAME || !settingName.test(name)) {
      problems.push({ key, source, rule: 'must be a name that Postgres takes: letters, digits and underscores' })
    } else if (String(value).length > MAX_VALUE_LENGTH || String(value).includes('\0')) {
      problems.push({ key, source, rule: `must be at most ${MAX_VALUE_LENGTH} characters, none of them zero` })
    }
  }
  const last = [...open.values()][MAX_OPEN_KEYS]
  if (last) problems.push({ key: `${prefix}*`, source: last.source, rule: `must be at most ${MAX_OPEN_KEYS}` })
  return problems
}
