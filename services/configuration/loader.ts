/**
 * Loads the configuration of a service: every key from the highest source that has it, checked by its kind. It collects all that is wrong, each problem with
 * key, source and rule, and never with the value. Rules that concern several keys are the service's.
 */
import {
  camelCase,
  type Declaration,
  type Environment,
  Key,
  List,
  Open,
  type Settings,
  type Sources,
} from './declaration.ts'
import { type Document, isTable, nameOf, type Path, type Table } from './document.ts'
import { ConfigurationError, type Problem, type Source } from './errors.ts'
import { nearest } from './nearest.ts'
import { ruleOf } from './rule.ts'
import { readNamedFile } from './secrets.ts'
import type { Kind } from './values.ts'

/** How a service is configured, beside its keys. */
export type Form = {
  /** @throws ConfigurationSyntaxError */
  readonly parse: (file: NonNullable<Sources['file']>, environment: Environment) => Document
  /** Precedes the names of variables; undefined: the environment sets no keys. */
  readonly environmentPrefix?: string
  /** The variables of a key without the prefix, the first that is set winning; by default its name in capitals. */
  readonly variablesOf?: (name: string) => readonly string[]
  /** Precede the names of settings in the database, in ascending order. */
  readonly databasePrefixes?: readonly string[]
  /** Whether an empty text unsets a key. By default an empty variable or flag counts as not given. */
  readonly emptyUnsets?: boolean
}

/** What is wrong with a configuration, for the service to add to. */
export type Checks = {
  readonly problems: Problem[]
  /** Whether every value keeps the rule of its key. */
  readonly isRight: boolean
  /** Whether a source has a value for the key of this name. */
  isGiven(name: string): boolean
  /** Adds a problem of the service's own. */
  refuse(name: string, rule: string): void
  /** @throws ConfigurationError if there is any problem */
  check(): void
}

export type Loaded<Keys> = Checks & { readonly settings: Settings<Keys> }

/** In ascending order. */
const ranks = ['fallback', 'file', 'environment', 'flag', 'database'] as const
type Given = { readonly value: unknown; readonly source: Source; readonly rank: number }
const given = (value: unknown, source: Source, rank: (typeof ranks)[number]): Given => ({
  value,
  source,
  rank: ranks.indexOf(rank),
})

/** Longer names have no near one, since finding it costs their length. */
const mostNearLength = 100
const mostNameLength = 200

const underscored = (name: string): string => name.replaceAll(/[-.]/g, '_')
const isAbsent = (value: unknown): boolean => value === undefined || value === null

/** One key's names in each source, the last of each winning. */
type Places = {
  readonly paths: readonly Path[]
  readonly variables: readonly string[]
  readonly fallbacks: readonly string[]
  readonly flag: string | undefined
  readonly settings: readonly string[]
}

class Loader {
  readonly problems: Problem[] = []
  readonly given = new Map<string, Given>()
  /** Whether every required key has a value. */
  isComplete = true
  /** Whether every value keeps its own rule. */
  isRight = true
  readonly #form: Form
  readonly #sources: Sources
  readonly #document: Document
  readonly #known = new Set<string>()
  readonly #unknown: Path[] = []

  constructor(form: Form, sources: Sources) {
    this.#form = form
    this.#sources = sources
    const none: Document = { root: {}, sourceOf: () => ({ kind: 'default' }), problems: [] }
    this.#document = sources.file === undefined ? none : form.parse(sources.file, sources.environment)
  }

  load(declaration: Declaration): Record<string, unknown> {
    const settings = this.#table(declaration, this.#document.root, [])
    const unknown = this.#unknown.map(path => {
      const name = nameOf(path)
      const meant = name.length <= mostNearLength ? nearest(name, [...this.#known]) : undefined
      const rule = `is not a key${meant === undefined ? '' : `; the nearest one is ${meant}`}`
      return { key: name.slice(0, mostNameLength), source: this.#document.sourceOf(path), rule }
    })
    this.problems.unshift(...this.#document.problems, ...unknown)
    return settings
  }

  refuse(key: string, source: Source, rule: string): undefined {
    this.problems.push({ key, source, rule })
  }

  #table(declaration: Declaration, node: unknown, path: Path): Record<string, unknown> {
    const table = this.#tableOf(node, path)
    const names = new Set<string>()
    const settings = this.#fields(declaration, table, path, '', names)
    for (const name of Object.keys(table)) if (!names.has(name)) this.#addUnknown(table[name], [...path, name])
    return settings
  }

  /** Adds to `names` what the table may have. */
  #fields(
    declaration: Declaration,
    table: Table,
    path: Path,
    prefix: string,
    names: Set<string>,
  ): Record<string, unknown> {
    const settings = Object.entries(declaration).map(([name, entry]) => {
      if (name.endsWith('_') && !(entry instanceof Key || entry instanceof List || entry instanceof Open))
        return [camelCase(name), this.#fields(entry, table, path, prefix + name, names)] as const
      const own = [...path, prefix + name]
      const isBeside = entry instanceof Key && entry.extras.file === '_file'
      for (const one of entry instanceof Key ? pathsOf(entry, own) : [own]) {
        names.add(String(one.at(-1)))
        this.#known.add(nameOf(one))
      }
      if (isBeside) names.add(String(fileKeyOf(own).at(-1)))
      return [camelCase(name), this.#entry(entry, table, own)] as const
    })
    return Object.fromEntries(settings)
  }

  #entry(entry: Declaration[string], table: Table, path: Path): unknown {
    if (entry instanceof Key) return this.#key(entry, table, path)
    const node = Object.hasOwn(table, String(path.at(-1))) ? table[String(path.at(-1))] : undefined
    if (entry instanceof List) return this.#list(entry, node, path)
    if (entry instanceof Open) return this.#open(entry, node, path)
    return this.#table(entry, node, path)
  }

  #tableOf(node: unknown, path: Path): Table {
    if (isTable(node)) return node
    if (!isAbsent(node)) this.refuse(nameOf(path), this.#document.sourceOf(path), 'must be a table of keys')
    return {}
  }

  #list({ keys, most, elsewhere }: List, node: unknown, path: Path): unknown[] {
    if (!isAbsent(node) && !Array.isArray(node))
      this.refuse(nameOf(path), this.#document.sourceOf(path), 'must be a list of tables')
    const tables: unknown[] = Array.isArray(node) ? node : []
    const length = Math.max(tables.length, elsewhere(this.#sources))
    if (length <= most) return Array.from({ length }, (_, at) => this.#table(keys(at), tables[at], [...path, at]))
    this.refuse(nameOf(path), this.#document.sourceOf(path), `must have at most ${most} entries`)
    return []
  }

  #open({ kind, names }: Open, node: unknown, path: Path): Record<string, unknown> {
    const found = new Map<string, Given>()
    for (const [text, value] of Object.entries(this.#tableOf(node, path))) {
      const own = [...path, text]
      const name = names.fromFile?.(text) ?? text
      if (names.rule === undefined && !names.form.test(name)) this.#unknown.push(own)
      else found.set(name, given(value, this.#document.sourceOf(own), 'file'))
    }
    const prefix = `${this.#form.environmentPrefix}${names.variable}`
    for (const [variable, value] of Object.entries(this.#sources.environment)) {
      if (!variable.startsWith(prefix) || value === undefined || (value === '' && !this.#form.emptyUnsets)) continue
      const name = names.fromVariable(variable.slice(prefix.length))
      if (names.rule === undefined && !names.form.test(name)) continue
      found.set(name, given(value, { kind: 'environment', variable }, 'environment'))
    }
    const last = [...found.values()][names.most]
    if (last !== undefined) this.refuse(`${nameOf(path)}.*`, last.source, `must be at most ${names.most}`)
    const settings = [...found].map(([name, { value, source }]) => {
      const key = nameOf([...path, name.slice(0, mostNameLength)])
      if (!names.form.test(name)) return [name, this.refuse(key, source, names.rule ?? '')]
      const read = this.#parse(kind, key, value, source)
      return [name, read?.value]
    })
    return Object.fromEntries(settings)
  }

  #key(key: Key, table: Table, path: Path): unknown {
    const name = nameOf(path)
    const own = this.#find(this.#placesOf(key, path), table)
    if (own !== undefined) this.given.set(name, own)
    const read = this.#read(key, path, own, table)
    if (read !== undefined) return read.value
    if (!key.isRequired) return key.kind.schema.parse(key.default)
    this.isComplete = false
    if (own === undefined) this.refuse(name, { kind: 'default' }, 'must be given')
  }

  /** undefined: the default counts, since nothing is given, or what is given is wrong. */
  #read(key: Key, path: Path, own: Given | undefined, table: Table): { readonly value: unknown } | undefined {
    const { kind, extras } = key
    const name = nameOf(path)
    if (extras.file === '_file') {
      const places = this.#placesOf(key, path)
      const variables = places.variables.map(variable => `${variable}_FILE`)
      const paths = [fileKeyOf(path)]
      const beside = this.#find({ paths, variables, fallbacks: [], flag: undefined, settings: [] }, table)
      if (beside !== undefined && beside.rank === own?.rank)
        return this.refuse(nameOf(fileKeyOf(path)), beside.source, `must not be given together with ${name}`)
      if (beside !== undefined && beside.rank > (own?.rank ?? -1))
        return this.#readFile(kind, nameOf(fileKeyOf(path)), String(beside.value), beside.source)
    }
    if (own === undefined || (own.value === '' && this.#form.emptyUnsets && kind.type !== 'list')) return undefined
    const { value, source } = own
    if (extras.file === '@' && typeof value === 'string' && value.startsWith('@'))
      return this.#readFile(kind, name, value.slice(1), source)
    return this.#parse(kind, name, value, source)
  }

  /** A user who may set keys in the database may not read files of the server. */
  #readFile(kind: Kind, name: string, path: string, source: Source): { readonly value: unknown } | undefined {
    if (source.kind === 'database') return this.refuse(name, source, 'must not name a file from within the database')
    const read = readNamedFile(path, this.#sources.readFile)
    return read.kind === 'refused' ? this.refuse(name, source, read.rule) : this.#parse(kind, name, read.text, source)
  }

  #parse(kind: Kind, name: string, value: unknown, source: Source): { readonly value: unknown } | undefined {
    const result = kind.schema.safeParse(value, { error: ruleOf })
    if (result.success) return { value: result.data }
    this.isRight = false
    if (kind.rule !== undefined) return this.refuse(name, source, kind.rule)
    for (const { path, message } of result.error.issues)
      this.refuse(
        nameOf([name, ...path.map(part => (typeof part === 'number' ? part : String(part)))]),
        source,
        message,
      )
    return undefined
  }

  #placesOf({ extras }: Key, path: Path): Places {
    const { aliases = [], fallbacks = [], flag, isFlagOnly = false, inDatabase = false } = extras
    const { environmentPrefix, databasePrefixes = [], variablesOf = defaultVariables } = this.#form
    const names = [...aliases, String(path.at(-1))]
    const full = names.map(name => nameOf([...path.slice(0, -1), name]))
    const variables = full.flatMap(name => (extras.variables ?? variablesOf(name)).toReversed())
    return {
      paths: pathsOf({ extras }, path),
      variables:
        environmentPrefix === undefined || isFlagOnly ? [] : variables.map(variable => environmentPrefix + variable),
      fallbacks,
      flag,
      settings: inDatabase ? databasePrefixes.flatMap(prefix => full.map(name => prefix + underscored(name))) : [],
    }
  }

  #find({ paths, variables, fallbacks, flag, settings }: Places, table: Table): Given | undefined {
    const { environment, flags, database = {} } = this.#sources
    const isGiven = (value: unknown) => !isAbsent(value) && (value !== '' || this.#form.emptyUnsets === true)
    const variable = (name: string, rank: 'fallback' | 'environment') =>
      isGiven(environment[name]) ? given(environment[name], { kind: 'environment', variable: name }, rank) : undefined
    const flagged = flag === undefined ? undefined : flags?.get(flag)
    const candidates = [
      ...fallbacks.map(name => variable(name, 'fallback')),
      ...paths.map(path => {
        const name = String(path.at(-1))
        const value = Object.hasOwn(table, name) ? table[name] : undefined
        return isAbsent(value) ? undefined : given(value, this.#document.sourceOf(path), 'file')
      }),
      ...variables.map(name => variable(name, 'environment')),
      flag !== undefined && isGiven(flagged) ? given(flagged, { kind: 'flag', flag }, 'flag') : undefined,
      ...settings.map(setting => {
        const value = Object.hasOwn(database, setting) ? database[setting] : undefined
        return value === undefined ? undefined : given(value, { kind: 'database', setting }, 'database')
      }),
    ]
    return candidates.findLast(candidate => candidate !== undefined)
  }

  #addUnknown(node: unknown, path: Path): void {
    const below: [string | number, unknown][] = isTable(node)
      ? Object.entries(node)
      : Array.isArray(node) && node.every(isTable)
        ? [...node.entries()]
        : []
    if (below.length === 0) this.#unknown.push(path)
    for (const [name, inner] of below) this.#addUnknown(inner, [...path, name])
  }
}

const defaultVariables = (name: string): string[] => [underscored(name).toUpperCase()]

function pathsOf({ extras: { aliases = [], isFlagOnly } }: Pick<Key, 'extras'>, path: Path): Path[] {
  return isFlagOnly ? [] : [...aliases.map(alias => [...path.slice(0, -1), alias]), path]
}

const fileKeyOf = (path: Path): Path => [...path.slice(0, -1), `${path.at(-1)}_file`]

/**
 * Loads what is declared. What is wrong has its default in the settings.
 * @throws ConfigurationSyntaxError if the file is not of the syntax
 * @throws ConfigurationError if a required key has no right value
 */
export function load<Keys extends Declaration>(declaration: Keys, form: Form, sources: Sources): Loaded<Keys> {
  const loader = new Loader(form, sources)
  const { problems, given } = loader
  // The type says what the schemas of the declaration make.
  const settings = loader.load(declaration) as Settings<Keys>
  if (!loader.isComplete) throw new ConfigurationError(problems)
  return {
    settings,
    problems,
    isRight: loader.isRight,
    isGiven: name => given.has(name),
    refuse: (name, rule) =>
      void problems.push({ key: name, source: given.get(name)?.source ?? { kind: 'default' }, rule }),
    check() {
      if (problems.length > 0) throw new ConfigurationError(problems)
    },
  }
}
