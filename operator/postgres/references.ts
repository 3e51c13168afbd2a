/**
 * Checks whether the schemas, tables and columns exist that the services' configurations name, with one query in the
 * application database. It reads only catalogs, so it runs no code of users.
 */
import type { QueryConfig } from 'pg'
import { applicationDatabase } from '../../sealing/credentials.ts'
import type { PostgresTarget } from './connection.ts'
import { PostgresError, slowReasons } from './errors.ts'
import type { Sessions } from './sessions.ts'

/** If `schema` is undefined, the table may be in any schema, because the search path decides. */
export type TableReference = { schema: string | undefined; name: string; columns: string[]; vectorColumn: string }

export type References = {
  /** A digest of the other fields, to compare an answer with the current configuration. */
  digest: string
  schemas: string[]
  /** In the order of the configuration. */
  tables: TableReference[]
  /** Whether the extension `vector` is needed. */
  needsVector: boolean
}

/** `exists`: whether a relation has this name. `missing`: columns that no relation with this name has. */
type FoundTable = {
  exists: boolean
  missing: string[]
  /** The vector column in each relation that has it. `dimensions`: -1 if the column accepts any number. */
  vectors: { type: string; dimensions: number }[]
}

export type FoundReferences = {
  missingSchemas: string[]
  /** `available`: the server has the extension, but the database does not. `unneeded`: it was not requested. */
  vector: 'unneeded' | 'installed' | 'available' | 'absent'
  /** In the order of the requested tables. */
  tables: FoundTable[]
}

/** `found` undefined: the database refused the query. */
export type ReferencesAnswer = { digest: string; found: FoundReferences | undefined }

/** One row with one column, `found`: FoundReferences. A domain over a vector counts as a vector. */
const query = ({ schemas, tables, needsVector }: References): QueryConfig => ({
  text: `
SELECT json_build_object(
  'missingSchemas', (SELECT coalesce(json_agg(name ORDER BY place), '[]')
    FROM unnest($1::text[]) WITH ORDINALITY AS wanted (name, place)
    WHERE NOT EXISTS (SELECT FROM pg_namespace WHERE nspname = wanted.name)),
  'vector', CASE
    WHEN NOT $3 THEN 'unneeded'
    WHEN EXISTS (SELECT FROM pg_extension WHERE extname = 'vector') THEN 'installed'
    WHEN EXISTS (SELECT FROM pg_available_extensions() AS a WHERE a.name = 'vector') THEN 'available'
    ELSE 'absent' END,
  'tables', (SELECT coalesce(json_agg(json_build_object(
      'exists', relations.oids IS NOT NULL,
      'missing', (SELECT coalesce(json_agg(one), '[]') FROM unnest(wanted.columns) AS one
        WHERE NOT EXISTS (SELECT FROM pg_attribute a
          WHERE a.attrelid = ANY (relations.oids) AND a.attname = one AND a.attnum > 0 AND NOT a.attisdropped)),
      'vectors', (SELECT coalesce(json_agg(json_build_object('type', coalesce(base.typname, t.typname),
          'dimensions', CASE WHEN t.typtype = 'd' THEN t.typtypmod ELSE a.atttypmod END)), '[]')
        FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
          LEFT JOIN pg_type base ON t.typtype = 'd' AND base.oid = t.typbasetype
        WHERE a.attrelid = ANY (relations.oids) AND a.attname = wanted."vectorColumn" AND a.attnum > 0 AND NOT a.attisdropped)
    ) ORDER BY wanted.place), '[]')
    FROM json_to_recordset($2::json)
      AS wanted (place int, schema text, name text, columns text[], "vectorColumn" text)
    CROSS JOIN LATERAL (SELECT array_agg(c.oid) AS oids FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
      WHERE c.relname = wanted.name::name AND c.relkind IN ('r', 'p', 'v', 'm', 'f')
        AND (wanted.schema IS NULL OR n.nspname = wanted.schema::name)) AS relations)
) AS found`,
  values: [schemas, JSON.stringify(tables.map((table, place) => ({ ...table, place }))), needsVector],
})

/** @throws PostgresError if the result is unknown because the server is slow or unreachable; the signal's reason */
export async function findReferences(
  { connect }: Sessions,
  target: PostgresTarget,
  references: References,
  version: number,
  signal: AbortSignal,
): Promise<ReferencesAnswer> {
  const { digest } = references
  try {
    const work = connect(
      target,
      applicationDatabase,
      signal,
      connection => connection.rows<{ found: FoundReferences }>(query(references)),
      version,
    )
    const [row] = await work
    return { digest, found: row?.found }
  } catch (error) {
    // A user can block all connections to the database. Another condition reports that.
    if (error instanceof PostgresError && !slowReasons.has(error.reason)) return { digest, found: undefined }
    throw error
  }
}
