/**
 * The tables of a pipeline as the database describes them. Descriptions are refreshed after some time, and after a
 * statement failed because a table has changed.
 */
import { isDeepStrictEqual } from 'node:util'
import type { Logger } from 'pino'
import { sqlConditionError } from '../../../values/sql-condition.ts'
import { onlyCell } from '../../postgres/cells.ts'
import { qualified } from '../../postgres/quote.ts'
import type { TableFilter, TableSettings } from '../configuration/types.ts'
import { RagError } from '../errors.ts'
import { CachedValue } from './cached-value.ts'
import { catalogIndexes, catalogTable, indexesStatement, tableStatement } from './catalog.ts'
import { conditionOf } from './conditions.ts'
import { Parameters } from './parameters.ts'
import { type DescribedTable, describeTable, shownName, type VectorIndex, withIndexes } from './table.ts'
import type { RunStatement, SearchedTable } from './types.ts'

/** `lexical` contains statistics, so it is created again only if the table has changed. */
export type SearchableTable<Lexical> = {
  readonly described: DescribedTable
  readonly filter: TableFilter | undefined
  readonly lexical: Lexical
}

type Options<Lexical> = {
  readonly settings: readonly TableSettings[]
  readonly run: RunStatement
  readonly makeLexical: (table: SearchedTable) => Lexical
  readonly logger: Logger
  readonly now: () => number
  /** The timeout of describing a table. */
  readonly readMs?: number
}

/** The refresh must end even if the database does not respond, because other callers wait for it too. */
const usualReadMs = 15_000

const lifetimeMs = 60_000

export class Tables<Lexical> {
  readonly #options: Options<Lexical>
  readonly #cached: CachedValue<readonly SearchableTable<Lexical>[]>
  #warned = new Set<string>()

  constructor(options: Options<Lexical>) {
    this.#options = options
    const { logger, now } = options
    this.#cached = new CachedValue({
      read: before => this.#read(before ?? []),
      ...{ lifetimeMs, now },
      onFailure: error => logger.warn({ err: error }, 'reading the description of the tables failed'),
    })
  }

  /**
   * Returns outdated descriptions while a refresh runs.
   * @throws RagError, DatabaseError, ConnectionFailure
   */
  get(): Promise<readonly SearchableTable<Lexical>[]> {
    return this.#cached.get()
  }

  /** Makes the next search wait for a refresh. */
  forget(): void {
    this.#cached.forget()
  }

  /** Refreshes the descriptions now, once for all callers. No caller's signal stops the refresh. */
  read(): Promise<readonly SearchableTable<Lexical>[]> {
    return this.#cached.read()
  }

  async #read(before: readonly SearchableTable<Lexical>[]): Promise<readonly SearchableTable<Lexical>[]> {
    const found: SearchableTable<Lexical>[] = []
    for (const [index, settings] of this.#options.settings.entries()) {
      const described = await describe(settings, this.#options)
      const old = before[index]
      const isSame = old !== undefined && isDeepStrictEqual(old.described.table, described.table)
      const lexical = isSame ? old.lexical : this.#options.makeLexical(described.table)
      found.push({ described, filter: settings.filter, lexical })
    }
    this.#warn(found.flatMap(({ described }) => described.warnings))
    return found
  }

  /** Logs each warning once, until its cause is resolved. */
  #warn(warnings: readonly string[]): void {
    for (const warning of warnings) if (!this.#warned.has(warning)) this.#options.logger.warn(warning)
    this.#warned = new Set(warnings)
  }
}

async function describe(
  settings: TableSettings,
  { run, readMs = usualReadMs }: Pick<Options<unknown>, 'run' | 'readMs'>,
): Promise<DescribedTable> {
  const signal = AbortSignal.timeout(readMs)
  const error = settings.filter?.kind === 'sql' ? await sqlConditionError(settings.filter.text) : undefined
  if (error !== undefined) throw new RagError('EXECUTION_ERROR', `table ${shownName(settings)}: filter ${error}`)
  const described = describeTable(settings, catalogTable(await run(tableStatement(settings), signal)))
  const indexes = catalogIndexes(await run(indexesStatement(described.table.oid, described.number), signal))
  const all = withIndexes(described, indexes)
  const usable: VectorIndex[] = []
  for (const index of all.vector.indexes) {
    if (!index.isPartial || (await isUsed(all, index, settings.filter, run, signal))) usable.push(index)
  }
  return { ...all, vector: { ...all.vector, indexes: usable } }
}

/** Whether the planner can use a partial index for the rows that the configured filter accepts. */
async function isUsed(
  { table, vector }: DescribedTable,
  { name, operator, expression, type }: VectorIndex,
  filter: TableFilter | undefined,
  run: RunStatement,
  signal: AbortSignal,
): Promise<boolean> {
  const parameters = new Parameters()
  const condition = conditionOf(table, filter, undefined, parameters)
  const dimensions = vector.dimensions ?? Number(/\((\d+)\)\)*$/.exec(expression)?.[1] ?? 0)
  const parameter = parameters.add(
    `[${Array.from({ length: dimensions }, () => 1).join(',')}]`,
    `${vector.schema}.${type}`,
  )
  const text = `EXPLAIN (FORMAT JSON) SELECT FROM ${qualified(table)} AS t
WHERE ${[`${vector.expression} IS NOT NULL`, ...(condition === undefined ? [] : [condition])].join(' AND ')}
ORDER BY ${expression} OPERATOR(${vector.schema}.${operator}) ${parameter} LIMIT 1`
  const plan = onlyCell(await run({ text, values: parameters.values }, signal))
  return plan?.includes(`"Index Name": ${JSON.stringify(name)}`) === true
}
