/** The table that a load writes: its columns, and the SQL that creates it. */
import { qualified, quoteIdentifier } from '../../../postgres/quote.ts'

type VectorType = 'vector' | 'halfvec'

/** Names as the catalog has them. */
export type LoadTable = {
  readonly schema: string
  readonly name: string
  readonly idColumn: string
  readonly textColumn: string
  readonly vectorColumn: string
  /** The schema of pgvector. */
  readonly vectorSchema: string
}

export type VectorShape = { readonly type: VectorType; readonly dimensions: number }

export const vectorTypeSql = ({ vectorSchema }: LoadTable, type: VectorType): string =>
  `${quoteIdentifier(vectorSchema)}.${type}`

export const shapeSql = (table: LoadTable, { type, dimensions }: VectorShape): string =>
  `${vectorTypeSql(table, type)}(${dimensions})`

/** Columns that every load writes in addition to the pipeline's columns, with their types. */
export const ownColumns = {
  source: 'text',
  document: 'text',
  heading: 'text',
  ordinal: 'integer',
  position: 'bigint',
  digest: 'text',
} as const
export const searchColumn = 'lexemes'

/** The maximum dimensions of a pgvector index. */
const mostDimensions: Readonly<Record<VectorType, number>> = { vector: 2_000, halfvec: 4_000 }

export const isIndexable = ({ type, dimensions }: VectorShape): boolean => dimensions <= mostDimensions[type]

/** Uses half precision if requested, or if an index requires it. */
export const shapeFor = (dimensions: number, isHalf: boolean): VectorShape => ({
  type: isHalf || dimensions > mostDimensions.vector ? 'halfvec' : 'vector',
  dimensions,
})

const literal = (text: string): string => `'${text.replaceAll("'", "''")}'`

const modelPrefix = 'embedding model: '

export const modelOfComment = (comment: string | undefined): string | undefined =>
  comment?.startsWith(modelPrefix) ? comment.slice(modelPrefix.length) : undefined

export const commentSql = (table: LoadTable, model: string): string =>
  `COMMENT ON COLUMN ${qualified(table)}.${quoteIdentifier(table.vectorColumn)} IS ${literal(modelPrefix + model)}`

/** Statements for one transaction. `configuration`: the text search configuration. */
export function tableStatements(
  table: LoadTable,
  shape: VectorShape,
  configuration: string,
  model: string,
): readonly string[] {
  const name = qualified(table)
  const text = quoteIdentifier(table.textColumn)
  const columns = [
    `${quoteIdentifier(table.idColumn)} text PRIMARY KEY`,
    ...Object.entries(ownColumns).map(([column, type]) => `${quoteIdentifier(column)} ${type} NOT NULL`),
    `${text} text NOT NULL`,
    `${quoteIdentifier(table.vectorColumn)} ${shapeSql(table, shape)} NOT NULL`,
    `${searchColumn} tsvector GENERATED ALWAYS AS (to_tsvector(${literal(configuration)}::regconfig, ${text})) STORED`,
  ]
  return [
    `CREATE TABLE ${name} (${columns.join(', ')})`,
    `CREATE INDEX ON ${name} (source)`,
    `CREATE INDEX ON ${name} (digest)`,
    `CREATE INDEX ON ${name} USING gin (${searchColumn})`,
    commentSql(table, model),
  ]
}

/** The memory for building an index, unless the server's setting is higher. */
const indexMemoryMb = 256

/** Statements for one transaction. */
export const vectorIndexStatements = (table: LoadTable, { type }: VectorShape): readonly string[] => [
  `SELECT pg_catalog.set_config('maintenance_work_mem', '${indexMemoryMb}MB', true)
   WHERE pg_catalog.pg_size_bytes(pg_catalog.current_setting('maintenance_work_mem')) < ${indexMemoryMb} * 1048576::bigint`,
  `CREATE INDEX ON ${qualified(table)} USING hnsw (${quoteIdentifier(table.vectorColumn)} ${quoteIdentifier(table.vectorSchema)}.${type}_cosine_ops)`,
]
