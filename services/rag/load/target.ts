/**
 * The table of one load, from its inspection to its last index. A reader sees either the old or the new version of a
 * file, never both at once.
 */

import { qualified, quoteIdentifier } from '../../postgres/quote.ts'
import type { Embedder } from '../../providers/types.ts'
import type { LoadDatabase } from './database.ts'
import { LoadError } from './errors.ts'
import type { FoundTable, Inspected } from './table/inspect.ts'
import {
  commentSql,
  isIndexable,
  type LoadTable,
  shapeFor,
  shapeSql,
  tableStatements,
  type VectorShape,
  vectorIndexStatements,
} from './table/layout.ts'
import { type StagedPassage, Staging } from './table/staging.ts'

export type TargetOptions = {
  /** Whether this load replaces all rows of the table. */
  readonly replace: boolean
  readonly halfPrecision: boolean
  /** A text-search configuration. */
  readonly language: string
}

type Moved = { readonly written: number; readonly deleted: number }
/** The result of staging: the number of unchanged passages, and the passages that need a vector. */
type Staged = { readonly unchanged: number; readonly needed: readonly StagedPassage[] }

export const modelName = ({ provider, model }: Pick<Embedder, 'provider' | 'model'>): string => `${provider}/${model}`

export class Target {
  readonly #database: LoadDatabase
  readonly #table: LoadTable
  readonly #staging: Staging
  readonly #model: string
  readonly #options: TargetOptions
  readonly #vectorIndexes: readonly string[]
  /** undefined: the table does not exist yet. */
  #shape: VectorShape | undefined
  /** Whether this load has created the table. */
  #isMade = false
  #areIndexesDropped = false

  constructor(database: LoadDatabase, { table, found }: Inspected, model: string, run: string, options: TargetOptions) {
    this.#database = database
    this.#table = table
    this.#staging = new Staging(table, run)
    this.#model = model
    this.#options = options
    this.#shape = found?.shape
    this.#vectorIndexes = found?.vectorIndexes ?? []
    if (found !== undefined) checkModel(table, found, model, options)
  }

  async prepare(): Promise<void> {
    await checkLanguage(this.#database, this.#options.language)
    await this.#database.transaction(this.#staging.create())
  }

  /** @throws LoadError if a file contains the same passage twice */
  async stage(passages: readonly StagedPassage[]): Promise<Staged> {
    const twice = passages.find(({ id }, index) => passages.findIndex(other => other.id === id) !== index)
    if (twice !== undefined) throw repeated(twice)
    const reuse = this.#shape === undefined ? undefined : this.#options.replace ? 'vectors' : 'rows'
    const { text, values } = this.#staging.stage(passages, reuse)
    const { rows } = await this.#database.query(text, values)
    const staged = new Map(rows.map(cells => [cells.text('id'), cells]))
    const missing = passages.find(({ id }) => !staged.has(id))
    if (missing !== undefined) throw repeated(missing)
    return {
      unchanged: rows.filter(cells => cells.flag('is_kept')).length,
      needed: passages.filter(({ id }) => staged.get(id)?.flag('needs_vector')),
    }
  }

  /** `vectors`: by digest. @throws LoadError if the table has vectors of other dimensions */
  async embed(vectors: ReadonlyMap<string, readonly number[]>): Promise<void> {
    const [first] = vectors.values()
    const dimensions = first?.length ?? 0
    if (this.#shape !== undefined && this.#shape.dimensions !== dimensions && !this.#options.replace) {
      throw new LoadError(
        `${qualified(this.#table)}: has vectors of ${this.#shape.dimensions} dimensions, and ${this.#model} generates ${dimensions}. Load with --replace to embed all documents again`,
      )
    }
    const { text, values } = this.#staging.embed(vectors)
    await this.#database.query(text, values)
  }

  /**
   * Moves completely staged files into the table. If all rows are to be replaced, does nothing, because `finish`
   * replaces them.
   */
  async finishFiles(sources: readonly string[]): Promise<Moved> {
    const shape = this.#shape ?? (await this.#make())
    // No file has contained any text so far.
    if (shape === undefined || (this.#options.replace && this.#wasThere)) return { written: 0, deleted: 0 }
    const [deleted, written] = await this.#database.transaction(this.#staging.moveFiles(sources, shape))
    return { written: written?.affected ?? 0, deleted: deleted?.affected ?? 0 }
  }

  /** Completes the load after all files are staged. `keep`: the sources whose rows remain; undefined: all. */
  async finish(keep: readonly string[] | undefined): Promise<Moved> {
    const moved = this.#options.replace && this.#wasThere ? await this.#replaceAll() : { written: 0, deleted: 0 }
    const pruned = keep === undefined || this.#shape === undefined ? 0 : await this.#prune(keep)
    await this.#database.transaction([this.#staging.drop()])
    return { written: moved.written, deleted: moved.deleted + pruned }
  }

  /** Builds the vector index if it is missing. @returns a warning if the vectors cannot be indexed */
  async index(): Promise<string | undefined> {
    const shape = this.#shape
    if (shape === undefined || this.#hasIndex) return undefined
    if (!isIndexable(shape)) {
      return `${qualified(this.#table)}: vectors of ${shape.dimensions} dimensions cannot be indexed; searches read the whole table`
    }
    await this.#database.transaction(vectorIndexStatements(this.#table, shape).map(text => ({ text })))
    return undefined
  }

  get #wasThere(): boolean {
    return this.#shape !== undefined && !this.#isMade
  }

  get #hasIndex(): boolean {
    return this.#vectorIndexes.length > 0 && !this.#areIndexesDropped
  }

  async #stagedDimensions(): Promise<number | undefined> {
    const { text, values } = this.#staging.dimensions()
    const { rows } = await this.#database.query(text, values)
    return rows[0]?.number('dimensions')
  }

  async #make(): Promise<VectorShape | undefined> {
    const dimensions = await this.#stagedDimensions()
    if (dimensions === undefined) return undefined
    const { halfPrecision, language } = this.#options
    const shape = shapeFor(dimensions, halfPrecision)
    const statements = tableStatements(this.#table, shape, language, this.#model)
    await this.#database.transaction(statements.map(text => ({ text })))
    this.#shape = shape
    this.#isMade = true
    return shape
  }

  async #replaceAll(): Promise<Moved> {
    const dimensions = await this.#stagedDimensions()
    const before = this.#shape
    if (dimensions === undefined || before === undefined) {
      throw new LoadError('the files have no text; --replace would leave the table empty, and nothing was changed')
    }
    const type = this.#options.halfPrecision ? 'halfvec' : before.type
    const shape =
      type === before.type && dimensions === before.dimensions ? before : shapeFor(dimensions, type === 'halfvec')
    const name = qualified(this.#table)
    const changes = shape === before ? [] : this.#reshaping(shape)
    const outcomes = await this.#database.transaction([
      { text: `DELETE FROM ${name}` },
      ...changes.map(text => ({ text })),
      ...this.#staging.moveAll(shape),
      { text: commentSql(this.#table, this.#model) },
    ])
    this.#shape = shape
    this.#areIndexesDropped = changes.length > 0
    return { deleted: outcomes[0]?.affected ?? 0, written: outcomes[1 + changes.length]?.affected ?? 0 }
  }

  /** A vector index has one type and length, so the load must create it again. */
  #reshaping(shape: VectorShape): readonly string[] {
    const type = shapeSql(this.#table, shape)
    const column = quoteIdentifier(this.#table.vectorColumn)
    return [
      ...this.#vectorIndexes.map(index => `DROP INDEX ${index}`),
      `ALTER TABLE ${qualified(this.#table)} ALTER COLUMN ${column} TYPE ${type} USING NULL::${type}`,
    ]
  }

  async #prune(keep: readonly string[]): Promise<number> {
    const { affected } = await this.#database.query(
      `DELETE FROM ${qualified(this.#table)} t WHERE source IS NOT NULL AND NOT EXISTS (SELECT FROM json_array_elements_text($1::json) k (source) WHERE k.source = t.source)`,
      [JSON.stringify(keep)],
    )
    return affected
  }
}

const repeated = ({ source, document }: StagedPassage) =>
  new LoadError(`${source}: the document ${JSON.stringify(document)} occurs twice`)

/** The vectors of two models cannot be compared. @throws LoadError */
function checkModel(table: LoadTable, found: FoundTable, model: string, { replace }: TargetOptions): void {
  const name = qualified(table)
  if (replace && found.hasOtherRows) {
    throw new LoadError(`${name}: has rows that no load has written (source is NULL); --replace would delete them`)
  }
  if (replace || found.isEmpty || found.model === model) return
  if (found.model !== undefined) {
    throw new LoadError(
      `${name}: its vectors are from ${found.model}, and the pipeline uses ${model}. Load with --replace to embed all documents again`,
    )
  }
  throw new LoadError(
    `${name}: the model of its vectors is not recorded. If it is ${model}: ${commentSql(table, model)}; otherwise load with --replace`,
  )
}

/** @throws LoadError with a list of the configurations */
async function checkLanguage(database: LoadDatabase, language: string): Promise<void> {
  const { rows } = await database.query(
    'SELECT cfgname AS name FROM pg_catalog.pg_ts_config WHERE pg_catalog.pg_ts_config_is_visible(oid) ORDER BY 1',
  )
  const names = rows.map(cells => cells.text('name'))
  if (names.includes(language)) return
  throw new LoadError(
    `--language: unknown text-search configuration ${JSON.stringify(language)}; known configurations: ${names.join(', ')}`,
  )
}
