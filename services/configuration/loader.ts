/**
 * Loads a service's configuration. For each key, uses the value from the source with the highest precedence, and checks
 * its type. Collects all problems, each with key, source and rule, and never with the value. The service checks rules
 * about several keys.
 */
import { camelCase, type Declaration, Key, List, Open, type Settings, type Sources } from './declaration.ts'
import { type Document, isTable, nameOf, type Path, pathOf, type Table } from './document.ts'
import { ConfigurationError, type Problem, type Source } from './errors.ts'
import { nearest } from './nearest.ts'
import { ruleOf } from './rule.ts'
import { readNamedFile } from './secrets.ts'
import {
  type Form,
  fileKeyOf,
  findFile,
  findValue,
  isAbsent,
  type Origin,
  pathsOf,
  type SourcedValue,
  sourced,
} from './sources.ts'
import type { Kind } from './values.ts'

/** Collects configuration problems. The service can add its own problems. */
export type Checks = {
  readonly problems: Problem[]
  /** Whether every value satisfies its key's rule. */
  readonly isRight: boolean
  /** Whether a source has a value for this key, or the file contains this table. The value may be invalid. */
  isSet(name: string): boolean
  /** Adds a problem that the service found. */
  refuse(name: string, rule: string): void
  /** @throws ConfigurationError if there is any problem */
  check(): void
}

export type Loaded<Keys> = Checks & { readonly settings: Settings<Keys> }

/** Longer names get no suggestion, since the search time grows with their length. */
const mostNearLength = 100
const mostNameLength = 200
/** How many unknown keys get a suggestion. */
const mostNear = 20

class Loader {
  readonly problems: Problem[] = []
  readonly sourcedValues = new Map<string, SourcedValue>()
  /** Whether every required key has a value. */
  isComplete = true
  /** Whether every value satisfies its own rule. */
  isRight = true
  readonly #origin: Origin
  readonly #known = new Set<string>()
  readonly #unknown: Path[] = []

  constructor(form: Form, sources: Sources) {
    const none: Document = { root: {}, sourceOf: () => ({ kind: 'default' }), problems: [] }
    const document = sources.file === undefined ? none : form.parse(sources.file, sources.environment)
    this.#origin = { form, sources, document }
  }

  load(declaration: Declaration): Record<string, unknown> {
    const settings = this.#table(declaration, this.#origin.document.root, [])
    const known = [...this.#known]
    const unknown = this.#unknown.map((path, at) => {
      const name = nameOf(path)
      const meant = at < mostNear && name.length <= mostNearLength ? nearest(name, known) : undefined
      const rule = `is not a key${meant === undefined ? '' : `; the nearest one is ${meant}`}`
      return { key: name.slice(0, mostNameLength), source: this.#origin.document.sourceOf(path), rule }
    })
    this.problems.unshift(...this.#origin.document.problems, ...unknown)
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

  /** Adds the table's allowed names to `names`. */
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
      for (const one of entry instanceof Key ? inFile(entry.extras, own) : [own]) {
        names.add(String(one.at(-1)))
        this.#known.add(nameOf(one))
        this.#checkHasValue(entry, table, one)
      }
      return [camelCase(name), this.#entry(entry, table, own)] as const
    })
    return Object.fromEntries(settings)
  }

  #checkHasValue(entry: Declaration[string], table: Table, path: Path): void {
    const name = String(path.at(-1))
    if (!Object.hasOwn(table, name) || table[name] !== null) return
    if (this.#origin.form.emptyIsAbsent && !(entry instanceof Key && entry.extras.needsValue)) return
    const source = this.#origin.document.sourceOf(path)
    this.sourcedValues.set(nameOf(path), sourced(null, source, 'file'))
    this.isRight = false
    this.refuse(nameOf(path), source, 'must have a value')
  }

  #entry(entry: Declaration[string], table: Table, path: Path): unknown {
    if (entry instanceof Key) return this.#key(entry, table, path)
    const node = Object.hasOwn(table, String(path.at(-1))) ? table[String(path.at(-1))] : undefined
    if (entry instanceof List) return this.#list(entry, node, path)
    if (entry instanceof Open) return this.#open(entry, node, path)
    return this.#table(entry, node, path)
  }

  #tableOf(node: unknown, path: Path): Table {
    if (isTable(node)) {
      this.sourcedValues.set(nameOf(path), sourced(node, this.#origin.document.sourceOf(path), 'file'))
      return node
    }
    if (!isAbsent(node)) this.refuse(nameOf(path), this.#origin.document.sourceOf(path), 'must be a table of keys')
    return {}
  }

  #list({ keys, most, countInOthers }: List, node: unknown, path: Path): unknown[] {
    if (!isAbsent(node) && !Array.isArray(node))
      this.refuse(nameOf(path), this.#origin.document.sourceOf(path), 'must be a list of tables')
    const tables: unknown[] = Array.isArray(node) ? node : []
    const length = Math.max(tables.length, countInOthers(this.#origin.sources))
    if (length <= most) return Array.from({ length }, (_, at) => this.#table(keys(at), tables[at], [...path, at]))
    this.refuse(nameOf(path), this.#origin.document.sourceOf(path), `must have at most ${most} entries`)
    return []
  }

  #open({ kind, names }: Open, node: unknown, path: Path): Record<string, unknown> {
    const found = new Map<string, SourcedValue>()
    for (const [text, value] of Object.entries(this.#tableOf(node, path))) {
      if (value === null && this.#origin.form.emptyIsAbsent) continue
      const own = [...path, text]
      const name = names.fromFile?.(text) ?? text
      if (names.rule === undefined && !names.form.test(name)) this.#unknown.push(own)
      else found.set(name, sourced(value, this.#origin.document.sourceOf(own), 'file'))
    }
    const prefix = `${this.#origin.form.environmentPrefix}${names.variable}`
    for (const [variable, value] of Object.entries(this.#origin.sources.environment)) {
      if (!variable.startsWith(prefix) || value === undefined || (value === '' && !this.#origin.form.emptyUnsets))
        continue
      const name = names.fromVariable(variable.slice(prefix.length))
      if (names.rule === undefined && !names.form.test(name)) continue
      found.set(name, sourced(value, { kind: 'environment', variable }, 'environment'))
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
    const own = findValue(key.extras, path, table, this.#origin)
    if (own !== undefined) this.sourcedValues.set(name, own)
    const read = this.#read(key, path, own, table)
    if (read !== undefined) return read.value
    if (!key.isRequired) return key.kind.schema.parse(key.default)
    this.isComplete = false
    if (!this.sourcedValues.has(name)) this.refuse(name, { kind: 'default' }, 'must be given')
  }

  /** Undefined: the default is used, since there is no value or the value is invalid. */
  #read(key: Key, path: Path, own: SourcedValue | undefined, table: Table): { readonly value: unknown } | undefined {
    const { kind, extras } = key
    const name = nameOf(path)
    if (extras.file === '_file') {
      const beside = findFile(extras, path, table, this.#origin)
      if (beside !== undefined && beside.rank === own?.rank)
        return this.refuse(nameOf(fileKeyOf(path)), beside.source, `must not be given together with ${name}`)
      if (beside !== undefined && beside.rank > (own?.rank ?? -1))
        return this.#readFile(kind, nameOf(fileKeyOf(path)), String(beside.value), beside.source)
    }
    if (own === undefined || (own.value === '' && this.#origin.form.emptyUnsets && kind.type !== 'list'))
      return undefined
    const { value, source } = own
    if (source.kind === 'file' && !this.#origin.form.emptyIsAbsent && kind.isBlank?.(value)) {
      this.isRight = false
      return this.refuse(name, source, 'must have an entry, or be []')
    }
    if (extras.file === '@' && typeof value === 'string' && value.startsWith('@'))
      return this.#readFile(kind, name, value.slice(1), source)
    return this.#parse(kind, name, value, source)
  }

  /** A user who can set keys in the database must not be able to read the server's files. */
  #readFile(kind: Kind, name: string, path: string, source: Source): { readonly value: unknown } | undefined {
    if (source.kind === 'database') return this.refuse(name, source, 'must not name a file from within the database')
    const read = readNamedFile(path, this.#origin.sources.readFile)
    return read.kind === 'refused' ? this.refuse(name, source, read.rule) : this.#parse(kind, name, read.text, source)
  }

  #parse(kind: Kind, name: string, value: unknown, source: Source): { readonly value: unknown } | undefined {
    const result = kind.schema.safeParse(value, { error: ruleOf })
    if (result.success) return { value: result.data }
    this.isRight = false
    if (kind.rule !== undefined) return this.refuse(name, source, kind.rule)
    for (const { path, message } of result.error.issues) this.refuse(nameOf([name, ...pathOf(path)]), source, message)
    return undefined
  }

  #addUnknown(node: unknown, path: Path): void {
    const below: [string | number, unknown][] = isTable(node)
      ? Object.entries(node)
      : Array.isArray(node) && node.every(isTable)
        ? [...node.entries()]
        : []
    const isEmpty = node === null || (isTable(node) && below.length === 0)
    if (isEmpty && this.#origin.form.emptyIsAbsent) return
    if (below.length === 0) this.#unknown.push(path)
    for (const [name, inner] of below) this.#addUnknown(inner, [...path, name])
  }
}

/** The names of a key in the file. */
const inFile = (extras: Key['extras'], path: Path): Path[] =>
  extras.file === '_file' ? [fileKeyOf(path), ...pathsOf(extras, path)] : pathsOf(extras, path)

/**
 * Loads the declared keys. The settings have defaults in place of invalid values.
 * @throws ConfigurationSyntaxError if the file's syntax is wrong
 * @throws ConfigurationError if a required key has no valid value
 */
export function load<Keys extends Declaration>(declaration: Keys, form: Form, sources: Sources): Loaded<Keys> {
  const loader = new Loader(form, sources)
  const { problems, sourcedValues } = loader
  // The type follows from the schemas of the declaration.
  const settings = loader.load(declaration) as Settings<Keys>
  if (!loader.isComplete) throw new ConfigurationError(problems)
  return {
    settings,
    problems,
    isRight: loader.isRight,
    isSet: name => sourcedValues.has(name),
    refuse: (name, rule) =>
      void problems.push({ key: name, source: sourcedValues.get(name)?.source ?? { kind: 'default' }, rule }),
    check() {
      if (problems.length > 0) throw new ConfigurationError(problems)
    },
  }
}
