/** Looks up columns of found rows by their ids. */
import type { Address } from '../../postgres/address.ts'
import { qualified, quoteIdentifier } from '../../postgres/quote.ts'
import type { TableSettings } from '../configuration/types.ts'
import { LoadDatabase } from './database.ts'

type Named = { readonly table: string; readonly id: string }

/** The key of a found document, unique across all tables. */
export const rowKey = ({ table, id }: Named): string => `${table}\n${id}`

/**
 * Returns values of a column, by `rowKey`. Omits tables without this column, or without the pipeline's id column.
 * @throws LoadError
 */
export async function columnOf(
  address: Address,
  tables: readonly TableSettings[],
  column: string,
  found: readonly Named[],
): Promise<ReadonlyMap<string, string>> {
  const database = await LoadDatabase.open(address)
  const values = new Map<string, string>()
  try {
    for (const settings of tables) {
      const table = await tableWith(database, settings, column)
      if (table === undefined) continue
      const ids = found.filter(one => one.table === table.shown).map(({ id }) => id)
      const [id, wanted] = [quoteIdentifier(settings.idColumn), quoteIdentifier(column)]
      const { rows } = await database.query(
        `SELECT ${id}::text AS id, ${wanted}::text AS value FROM ${table.sql} WHERE ${id}::text IN (SELECT json_array_elements_text($1::json)) AND ${wanted} IS NOT NULL`,
        [JSON.stringify([...new Set(ids)])],
      )
      for (const cells of rows) values.set(rowKey({ table: table.shown, id: cells.text('id') }), cells.text('value'))
    }
    return values
  } finally {
    database.close()
  }
}

/** `shown`: the table's name in search results. Returns undefined if one of the columns is missing. */
async function tableWith(
  database: LoadDatabase,
  { schema, name, idColumn }: TableSettings,
  column: string,
): Promise<{ readonly sql: string; readonly shown: string } | undefined> {
  const tableName = schema === undefined ? quoteIdentifier(name) : qualified({ schema, name })
  const { rows } = await database.query(
    `SELECT n.nspname AS schema FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
     WHERE c.oid = pg_catalog.to_regclass($1) AND (SELECT pg_catalog.count(*) FROM pg_catalog.pg_attribute a
       WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND a.attname IN ($2, $3)) = $4::integer`,
    [tableName, idColumn, column, idColumn === column ? '1' : '2'],
  )
  const own = rows[0]?.text('schema')
  return own === undefined ? undefined : { sql: qualified({ schema: own, name }), shown: `${own}.${name}` }
}
