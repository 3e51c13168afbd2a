/** Finds an index for a lexical search in the catalog. */

import { type Cells, cellsOf, type NamedRows, type OwnStatement } from '../../../postgres/cells.ts'
import { qualified, quoteIdentifier } from '../../../postgres/quote.ts'
import type { SearchedTable } from '../types.ts'

/**
 * An inverted index on a `tsvector`. `vector`: the indexed column or expression, as SQL over the alias `t`. `isStored`:
 * the vector is a column, so reading it computes nothing. `configuration`: the text search configuration as SQL names
 * it; undefined: the database's default.
 */
export type InvertedIndex = {
  readonly kind: 'inverted'
  readonly vector: string
  readonly isStored: boolean
  readonly configuration: string | undefined
  /** The table and the column under which pg_stats describes the vector. */
  readonly statistics: { readonly table: string; readonly column: string }
}

/** An index of the extension pg_textsearch. `name`: the index as SQL names it. */
export type TextsearchIndex = { readonly kind: 'pg_textsearch'; readonly name: string }

/**
 * An index of the extension pg_search. `isOld`: the extension's functions are still in the schema paradedb, not in pdb.
 */
export type ParadeIndex = { readonly kind: 'pg_search'; readonly key: string; readonly isOld: boolean }

export type LexicalIndex = InvertedIndex | TextsearchIndex | ParadeIndex

/** Returns one row for each key of each suitable index. An index must be valid and not partial. */
export const indexesStatement = ({ oid, textColumn }: SearchedTable): OwnStatement => ({
  text: `SELECT am.amname::text AS method, e.extname::text AS extension, i.indexrelid::pg_catalog.regclass::text AS index,
       c.relname::text AS name, keys.number AS number, a.attname::text AS column, ia.attname::text AS key_name,
       CASE WHEN keys.attnum = 0 THEN pg_catalog.pg_get_indexdef(i.indexrelid, keys.number::integer, true) END AS expression,
       CASE WHEN a.attgenerated = 's' THEN pg_catalog.pg_get_expr(d.adbin, d.adrelid) END AS generated,
       coalesce(o.opcintype = 'pg_catalog.tsvector'::pg_catalog.regtype, false) AS is_tsvector,
       coalesce(a.attname = $2, false) AS is_text,
       EXISTS (SELECT FROM pg_catalog.pg_depend dep JOIN pg_catalog.pg_attribute col ON col.attrelid = dep.refobjid AND col.attnum = dep.refobjsubid
               WHERE dep.classid = 'pg_catalog.pg_class'::pg_catalog.regclass AND dep.objid = i.indexrelid AND dep.refobjid = i.indrelid AND col.attname = $2) AS reads_text,
       pg_catalog.array_to_string(c.reloptions, ',') AS options,
       pg_catalog.to_regproc('pdb.score') IS NULL AS is_old, pg_catalog.row_security_active(i.indrelid) AS is_secured
FROM pg_catalog.pg_index i
JOIN pg_catalog.pg_class c ON c.oid = i.indexrelid
JOIN pg_catalog.pg_am am ON am.oid = c.relam
CROSS JOIN LATERAL unnest(i.indkey::smallint[], i.indclass::oid[]) WITH ORDINALITY AS keys (attnum, class, number)
LEFT JOIN pg_catalog.pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = keys.attnum AND keys.attnum > 0
LEFT JOIN pg_catalog.pg_attribute ia ON ia.attrelid = i.indexrelid AND ia.attnum = keys.number
LEFT JOIN pg_catalog.pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
LEFT JOIN pg_catalog.pg_opclass o ON o.oid = keys.class
LEFT JOIN pg_catalog.pg_depend x ON x.classid = 'pg_catalog.pg_am'::pg_catalog.regclass AND x.objid = am.oid AND x.deptype = 'e'
LEFT JOIN pg_catalog.pg_extension e ON e.oid = x.refobjid
WHERE i.indrelid = $1::oid AND i.indisvalid AND i.indisready AND i.indpred IS NULL AND am.amname IN ('gin', 'rum', 'bm25')
ORDER BY c.relname, keys.number`,
  values: [oid, textColumn],
})

/**
 * Returns the index to use: first an extension's index, then a stored column, then an expression. Returns undefined if
 * there is none.
 */
export function lexicalIndexOf(rows: NamedRows, table: SearchedTable): LexicalIndex | undefined {
  const keys = cellsOf(rows)
  return extensionIndexOf(keys) ?? invertedIndexOf(keys, table)
}

function extensionIndexOf(keys: readonly Cells[]): LexicalIndex | undefined {
  for (const key of keys) {
    if (key.text('method') !== 'bm25' || !key.flag('is_text')) continue
    if (key.maybe('extension') === 'pg_textsearch') return { kind: 'pg_textsearch', name: key.text('index') }
    const field = /(?:^|,)key_field=([^,]+)/.exec(key.maybe('options') ?? '')?.[1]
    if (key.maybe('extension') === 'pg_search' && field !== undefined) {
      return { kind: 'pg_search', key: `t.${quoteIdentifier(field)}`, isOld: key.flag('is_old') }
    }
  }
  return undefined
}

function invertedIndexOf(keys: readonly Cells[], table: SearchedTable): InvertedIndex | undefined {
  const found = keys.filter(key => key.text('method') !== 'bm25' && key.flag('is_tsvector'))
  const stored = found.filter(key => key.maybe('column') !== undefined)
  const generated = stored.find(key => mentions(key.maybe('generated'), table.textColumn))
  if (generated !== undefined) return storedIndex(generated, table)
  const expression = found.find(key => key.maybe('expression') !== undefined && key.flag('reads_text'))
  if (expression !== undefined) return expressionIndex(expression)
  // A trigger, or the program that writes the rows, fills this column.
  const plain = stored.find(key => key.maybe('generated') === undefined)
  return plain && storedIndex(plain, table)
}

const storedIndex = (key: Cells, { name }: SearchedTable): InvertedIndex => ({
  kind: 'inverted',
  vector: `t.${quoteIdentifier(key.text('column'))}`,
  isStored: true,
  configuration: configurationOf(key.maybe('generated')),
  statistics: { table: name, column: key.text('column') },
})

const expressionIndex = (key: Cells): InvertedIndex => ({
  kind: 'inverted',
  vector: key.text('expression'),
  isStored: false,
  configuration: configurationOf(key.maybe('expression')),
  statistics: { table: key.text('name'), column: key.text('key_name') },
})

/** Whether an expression, as Postgres prints it, names a column. */
function mentions(expression: string | undefined, column: string): boolean {
  const names = (expression ?? '').replace(/'(?:[^']|'')*'/g, '').match(/"(?:[^"]|"")+"|[\p{L}_][\p{L}\p{N}_$]*/gu)
  return (names ?? []).some(name => name === column || name === quoteIdentifier(column))
}

/**
 * Returns the configuration in an expression that Postgres printed, as SQL text. Returns undefined if the expression
 * names no configuration, or a different one for each row.
 */
const configurationOf = (expression: string | undefined): string | undefined =>
  /\bto_tsvector\('((?:[^']|'')+)'::(?:pg_catalog\.)?regconfig,/.exec(expression ?? '')?.[1]?.replaceAll("''", "'")

/**
 * Whether policies limit the rows that this server's role sees. Then Postgres does not use an index for a condition
 * that could leak other rows, such as `@@`.
 */
export const isSecured = (rows: NamedRows): boolean => cellsOf(rows).some(key => key.flag('is_secured'))

export const policiesWarning = ({ schema, name }: SearchedTable): string =>
  `table ${schema}.${name} has row-level security for this server's role, so Postgres uses no index for words and only vectors are searched`

/** Explains why the table is searched only by vectors, with the statement that creates an index. */
export function adviceFor(searched: SearchedTable): string {
  const { schema, name, kind, textColumn } = searched
  if (!['r', 'p', 'm'].includes(kind)) {
    return `${schema}.${name} is not a table, so it has no index for words, and only vectors are searched`
  }
  const statement = `CREATE INDEX ON ${qualified(searched)} USING gin (to_tsvector('english', ${quoteIdentifier(textColumn)}))`
  return `table ${schema}.${name} has no index for words, so only vectors are searched; create one: ${statement}`
}
