/** Inspects the database before a load: the extension, the table, and whether the load can write to the table. */
import { DatabaseError } from '../../../../wire/errors.ts'
import type { Cells } from '../../../postgres/cells.ts'
import { qualified, quoteIdentifier } from '../../../postgres/quote.ts'
import type { TableSettings } from '../../configuration/types.ts'
import type { LoadDatabase } from '../database.ts'
import { LoadError } from '../errors.ts'
import { type LoadTable, modelOfComment, ownColumns, searchColumn, type VectorShape } from './layout.ts'

/** Of an existing table. */
export type FoundTable = {
  readonly shape: VectorShape
  /** The model of the table's vectors; undefined: not recorded. */
  readonly model: string | undefined
  readonly isEmpty: boolean
  /** Whether the table has rows that no load has written. */
  readonly hasOtherRows: boolean
  /** Indexes on the vectors, with quoted names. */
  readonly vectorIndexes: readonly string[]
}

export type Inspected = { readonly table: LoadTable; readonly found: FoundTable | undefined }

const unavailable =
  "this Postgres does not have pgvector. On the embedded installation, `espalier pgvector` adds it; elsewhere, install your Postgres's package"
const forbidden = 'this database does not have pgvector yet, and this role may not create it. As a superuser, run'

/** Returns the schema of pgvector. Creates the extension if it is missing. @throws LoadError */
async function vectorSchema(database: LoadDatabase): Promise<string> {
  const { rows } = await database.query(
    `SELECT (SELECT n.nspname FROM pg_catalog.pg_extension e JOIN pg_catalog.pg_namespace n ON n.oid = e.extnamespace WHERE e.extname = 'vector') AS schema,
       EXISTS (SELECT FROM pg_catalog.pg_available_extensions WHERE name = 'vector') AS is_available`,
  )
  const [first] = rows
  const schema = first?.maybe('schema')
  if (schema !== undefined) return schema
  const create = 'CREATE EXTENSION IF NOT EXISTS vector'
  if (first?.flag('is_available') !== true) throw new LoadError(unavailable)
  try {
    await database.query(create)
  } catch (error) {
    const cause = error instanceof LoadError ? error.cause : undefined
    throw cause instanceof DatabaseError && cause.sqlState === '42501'
      ? new LoadError(`${forbidden}: ${create}`, error)
      : error
  }
  return await vectorSchema(database)
}

const tableText = `
SELECT n.nspname AS schema, c.relkind AS kind, a.attname AS name, t.typname AS type, a.atttypmod AS modifier,
  pg_catalog.col_description(c.oid, a.attnum) AS comment,
  EXISTS (SELECT FROM pg_catalog.pg_index i WHERE i.indrelid = c.oid AND i.indisunique AND i.indisvalid AND i.indpred IS NULL
    AND i.indnkeyatts = 1 AND i.indkey[0] = a.attnum) AS is_unique,
  (SELECT pg_catalog.string_agg(x.oid::regclass::text, E'\\n') FROM pg_catalog.pg_index i JOIN pg_catalog.pg_class x ON x.oid = i.indexrelid
    JOIN pg_catalog.pg_am m ON m.oid = x.relam
    WHERE i.indrelid = c.oid AND a.attnum = ANY (i.indkey) AND m.amname NOT IN ('btree', 'gin', 'gist', 'hash', 'brin', 'spgist')) AS vector_indexes
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
  JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
  JOIN pg_catalog.pg_type t ON t.oid = a.atttypid
WHERE c.oid = pg_catalog.to_regclass($1)`

/**
 * @throws LoadError if the load reserves a column name, the extension is missing, or the load cannot write to the table
 */
export async function inspect(database: LoadDatabase, settings: TableSettings): Promise<Inspected> {
  const { schema, name, idColumn, textColumn, vectorColumn } = settings
  checkNames(settings)
  const extension = await vectorSchema(database)
  const tableName = schema === undefined ? quoteIdentifier(name) : qualified({ schema, name })
  const { rows } = await database.query(tableText, [tableName])
  const [first] = rows
  const own = first?.text('schema') ?? schema ?? (await currentSchema(database))
  const table: LoadTable = { schema: own, name, idColumn, textColumn, vectorColumn, vectorSchema: extension }
  if (first === undefined) return { table, found: undefined }
  const kind = first.text('kind')
  if (kind !== 'r' && kind !== 'p') throw new LoadError(`${qualified(table)}: is not a table`)
  return { table, found: await foundTable(database, table, rows) }
}

function checkNames({ idColumn, textColumn, vectorColumn }: TableSettings): void {
  const reserved = [...Object.keys(ownColumns), searchColumn]
  const pipelineNames = [idColumn, textColumn, vectorColumn]
  const taken = pipelineNames.find(one => reserved.includes(one))
  if (taken !== undefined) {
    throw new LoadError(
      `the pipeline's column ${JSON.stringify(taken)}: this name is reserved for the load; rename the column of text, vector or id`,
    )
  }
  if (new Set(pipelineNames).size < pipelineNames.length) {
    throw new LoadError("the pipeline's columns of text, vector and id must be three different columns")
  }
}

/** Returns the schema of the load's table, which may not exist yet. @throws LoadError */
export async function schemaOf(
  database: LoadDatabase,
  { schema, name }: Pick<TableSettings, 'schema' | 'name'>,
): Promise<string> {
  if (schema !== undefined) return schema
  const { rows } = await database.query(
    'SELECT n.nspname AS schema FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = pg_catalog.to_regclass($1)',
    [quoteIdentifier(name)],
  )
  return rows[0]?.text('schema') ?? (await currentSchema(database))
}

async function currentSchema(database: LoadDatabase): Promise<string> {
  const { rows } = await database.query('SELECT pg_catalog.current_schema() AS schema')
  const schema = rows[0]?.maybe('schema')
  if (schema === undefined) throw new LoadError('no schema of the search path exists; name one: table: SCHEMA.TABLE')
  return schema
}

async function foundTable(database: LoadDatabase, table: LoadTable, columns: readonly Cells[]): Promise<FoundTable> {
  const byName = new Map(columns.map(cells => [cells.text('name'), cells]))
  const vector = byName.get(table.vectorColumn)
  checkColumns(table, byName)
  const type = vector?.text('type') === 'halfvec' ? 'halfvec' : 'vector'
  const dimensions = vector?.number('modifier') ?? -1
  const { rows } = await database.query(
    `SELECT NOT EXISTS (SELECT FROM ${qualified(table)}) AS is_empty, EXISTS (SELECT FROM ${qualified(table)} WHERE source IS NULL) AS has_others`,
  )
  return {
    shape: { type, dimensions },
    model: modelOfComment(vector?.maybe('comment')),
    isEmpty: rows[0]?.flag('is_empty') ?? true,
    hasOtherRows: rows[0]?.flag('has_others') ?? false,
    vectorIndexes: vector?.maybe('vector_indexes')?.split('\n') ?? [],
  }
}

/** @throws LoadError with the statements that would make the table suitable */
function checkColumns(table: LoadTable, columns: ReadonlyMap<string, Cells>): void {
  const expected = { [table.idColumn]: 'text', [table.textColumn]: 'text', ...ownColumns }
  const changes: string[] = []
  for (const [name, type] of Object.entries(expected)) {
    const found = columns.get(name)?.text('type')
    if (found === undefined) changes.push(`ADD COLUMN ${quoteIdentifier(name)} ${type}`)
    else if (!isOfType(found, type)) changes.push(`ALTER COLUMN ${quoteIdentifier(name)} TYPE ${type}`)
  }
  const id = columns.get(table.idColumn)
  if (id?.flag('is_unique') !== true) changes.push(`ADD UNIQUE (${quoteIdentifier(table.idColumn)})`)
  const vector = columns.get(table.vectorColumn)
  const column = quoteIdentifier(table.vectorColumn)
  const dimensions = 'vector(DIMENSIONS OF THE MODEL)'
  if (vector === undefined) changes.push(`ADD COLUMN ${column} ${dimensions}`)
  else if (!['vector', 'halfvec'].includes(vector.text('type')) || vector.number('modifier') < 1) {
    changes.push(`ALTER COLUMN ${column} TYPE ${dimensions}`)
  }
  if (changes.length === 0) return
  throw new LoadError(
    `${qualified(table)}: lacks columns that a load needs, and nothing was changed. To add them: ALTER TABLE ${qualified(table)} ${changes.join(', ')};`,
  )
}

/** Type names as the catalog has them. */
const catalogNames: Readonly<Record<string, readonly string[]>> = {
  text: ['text', 'varchar'],
  integer: ['int4', 'int8'],
  bigint: ['int8'],
}
const isOfType = (found: string, type: string): boolean => catalogNames[type]?.includes(found) ?? false
