/**
 * Takes settings one by one from command line, environment and file, the first that has one winning, and collects all that is wrong. What
 * the file has and nobody has taken is wrong as well, so the code that takes a key is all that says it exists.
 */
import type { z } from 'zod'
import type { Problem, Source } from '../../configuration/errors.ts'
import { nearest } from '../../configuration/nearest.ts'
import { type ReadFile, readNamedFile } from '../../configuration/secrets.ts'
import type { Scalar } from '../../configuration/syntax.ts'
import type { Kind } from '../../configuration/values.ts'
import { type Leaf, readTree, type Tree } from './tree.ts'

export type Environment = Readonly<Record<string, string | undefined>>

export type McpSources = {
  readonly file: { readonly path: string; readonly text: string } | undefined
  readonly environment: Environment
  /** By their names without hyphens; true: given without a value. */
  readonly flags: ReadonlyMap<string, string | true>
  readonly readFile: ReadFile
}

/** Where else a key may be given than in the file. */
export type Elsewhere = {
  /** Without the prefix; the first that is set counts. */
  readonly variables?: readonly string[]
  readonly flag?: string
  /** Variables of others, whole, which count where nothing else is given. */
  readonly fallbacks?: readonly string[]
}

const prefix = 'ESPALIER_'

/** No file has it: it is written with its hyphen. */
const isFlagAlone = (key: string): boolean => key.startsWith('-')

/** By how much each counts. */
const ranks = { flag: 4, environment: 3, file: 2, fallback: 1 } as const
type Given = Leaf & { readonly rank: (typeof ranks)[keyof typeof ranks] }

export class SettingsReader {
  readonly problems: Problem[] = []
  readonly environment: Environment
  readonly #sources: McpSources
  readonly #tree: Tree
  readonly #taken = new Set<string>()

  constructor(sources: McpSources) {
    this.#sources = sources
    this.environment = sources.environment
    const { file } = sources
    this.#tree = file === undefined ? readTree('', '') : readTree(file.text, file.path)
    this.problems.push(...this.#tree.problems)
  }

  /** How many tables the file has in this list. */
  count(key: string): number {
    return this.#tree.lengths.get(key) ?? 0
  }

  /** Names of keys that the file has below this one. */
  namesBelow(key: string): readonly string[] {
    return [...this.#tree.leaves.keys()].flatMap(name =>
      name.startsWith(`${key}.`) ? [name.slice(key.length + 1)] : [],
    )
  }

  refuse(key: string, rule: string, elsewhere: Elsewhere = {}): void {
    this.problems.push({ key, source: this.#given(key, elsewhere)?.source ?? { kind: 'default' }, rule })
  }

  isGiven(key: string, elsewhere: Elsewhere = {}): boolean {
    return this.#given(key, elsewhere) !== undefined
  }

  /** undefined where it is not given, or wrong. */
  take<Schema extends z.ZodType>(
    key: string,
    { schema, rule }: Kind<Schema>,
    elsewhere: Elsewhere = {},
  ): z.output<Schema> | undefined {
    if (!isFlagAlone(key)) this.#taken.add(key)
    const given = this.#given(key, elsewhere)
    if (given === undefined) return undefined
    const result = schema.safeParse(given.value)
    if (result.success) return result.data
    this.problems.push({ key, source: given.source, rule })
    return undefined
  }

  /** A secret, or what the file holds that `<key>_file` names. */
  secret<Schema extends z.ZodType>(
    key: string,
    kind: Kind<Schema>,
    elsewhere: Elsewhere = {},
  ): z.output<Schema> | undefined {
    const fileKey = `${key}_file`
    const inFile = { variables: (elsewhere.variables ?? []).map(variable => `${variable}_FILE`) }
    this.#taken.add(fileKey)
    const [own, named] = [this.#given(key, elsewhere), this.#given(fileKey, inFile)]
    if (named === undefined || (own !== undefined && own.rank > named.rank)) return this.take(key, kind, elsewhere)
    this.#taken.add(key)
    if (own?.rank === named.rank) {
      this.problems.push({ key: fileKey, source: named.source, rule: `must not be given together with ${key}` })
      return undefined
    }
    const read = readNamedFile(String(named.value), this.#sources.readFile)
    if (read.kind === 'refused') {
      this.problems.push({ key: fileKey, source: named.source, rule: read.rule })
      return undefined
    }
    const result = kind.schema.safeParse(read.text)
    if (result.success) return result.data
    this.problems.push({ key: fileKey, source: named.source, rule: kind.rule })
    return undefined
  }

  /** The text of the file that a key names, with its path; undefined where there is none, or it cannot be read. */
  file<Schema extends z.ZodType<string>>(
    key: string,
    kind: Kind<Schema>,
    elsewhere: Elsewhere = {},
  ): { readonly path: string; readonly text: string } | undefined {
    const path = this.take(key, kind, elsewhere)
    if (path === undefined) return undefined
    const read = readNamedFile(path, this.#sources.readFile)
    if (read.kind === 'text') return { path, text: read.text }
    this.refuse(key, read.rule, elsewhere)
    return undefined
  }

  /** After all is taken: what is left has no meaning. */
  refuseUnknown(): void {
    const known = [...this.#taken]
    for (const [key, { source }] of this.#tree.leaves) {
      if (this.#taken.has(key)) continue
      const meant = key.length <= 100 ? nearest(key, known) : undefined
      const rule = `is not a key${meant === undefined ? '' : `; the nearest one is ${meant}`}`
      this.problems.push({ key, source, rule })
    }
  }

  /** An empty variable or flag is none: a chart sets what it has no value for. */
  #given(key: string, { variables = [], flag, fallbacks = [] }: Elsewhere): Given | undefined {
    const flagged = flag === undefined ? undefined : this.#sources.flags.get(flag)
    if (flag !== undefined && flagged !== undefined && flagged !== '')
      return given(flagged, { kind: 'flag', flag }, ranks.flag)
    const own = this.#variable(
      variables.map(variable => `${prefix}${variable}`),
      ranks.environment,
    )
    if (own !== undefined) return own
    const leaf = isFlagAlone(key) ? undefined : this.#tree.leaves.get(key)
    if (leaf !== undefined) return { ...leaf, rank: ranks.file }
    return this.#variable(fallbacks, ranks.fallback)
  }

  #variable(names: readonly string[], rank: Given['rank']): Given | undefined {
    for (const variable of names) {
      const value = this.environment[variable]
      if (value !== undefined && value !== '') return given(value, { kind: 'environment', variable }, rank)
    }
    return undefined
  }
}

const given = (value: Scalar, source: Source, rank: Given['rank']): Given => ({ value, source, rank })
