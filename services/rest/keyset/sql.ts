/**
 * The statement of a page. It reads one row more than the page has. That row shows whether there is a next page, and
 * whether the key distinguishes that row from this page's last row. The location column contains the keys of both rows,
 * each as a JSON list.
 */

import { quoteIdentifier } from '../../postgres/quote.ts'
import { keysetRefused } from '../errors/catalogue.ts'
import type { Keyset, KeysetKey, Plan } from '../plan/types.ts'
import { bodySql } from '../sql/body.ts'
import { fieldSql } from '../sql/condition.ts'
import { countableSql, keyedSql, sourceSql } from '../sql/read.ts'
import { limitSql, type StatementWriter } from '../sql/statement.ts'

type KeysetPlan = Extract<Plan, { kind: 'read' }> & { readonly keyset: Keyset }

/** The comparison of a key with the cursor's value. */
type Compared = {
  readonly key: KeysetKey
  /** The column. */
  readonly left: string
  /** The cursor's value. Undefined if the value is null. */
  readonly right: string | undefined
}

const same = ({ left, right }: Compared): string => (right === undefined ? `${left} IS NULL` : `${left} = ${right}`)

function beyond({ key, left, right }: Compared): string {
  if (right === undefined) return key.nullsFirst ? `${left} IS NOT NULL` : 'FALSE'
  const further = `${left} ${key.isDescending ? '<' : '>'} ${right}`
  return key.isNullable && !key.nullsFirst ? `(${further} OR ${left} IS NULL)` : further
}

/** Rows after the cursor: the first differing key is greater. */
function afterSql(compared: readonly Compared[]): string {
  const [first] = compared
  if (first === undefined) return 'TRUE'
  const isPlain = compared.every(
    ({ key, right }) => !key.isNullable && right !== undefined && key.isDescending === first.key.isDescending,
  )
  if (isPlain) {
    const list = (side: 'left' | 'right') => compared.map(one => one[side]).join(', ')
    // One row comparison, because an index supports it.
    return `(${list('left')}) ${first.key.isDescending ? '<' : '>'} (${list('right')})`
  }
  const cases = compared.map((one, index) => [...compared.slice(0, index).map(same), beyond(one)].join(' AND '))
  const anyCase = `(${cases.map(text => `(${text})`).join(' OR ')})`
  // This condition is redundant, but an index can use it.
  const isBound = !first.key.isNullable && first.right !== undefined
  return isBound ? `${first.left} ${first.key.isDescending ? '<=' : '>='} ${first.right} AND ${anyCase}` : anyCase
}

/** A cursor's value, cast to the column's declared type in the schema cache. */
function valueSql(writer: StatementWriter, { field }: KeysetKey, value: string): string {
  const parameter = writer.value(value)
  return field.type === undefined || field.path.length > 0 ? parameter : `${parameter}::${field.type}`
}

/** In JSON, duplicate names would become one name. */
function checkNames(names: readonly string[]): void {
  const twice = names.find((name, index) => names.indexOf(name) < index)
  if (twice !== undefined) throw keysetRefused(`'${twice}' is selected twice`)
}

export function keysetSql(writer: StatementWriter, plan: KeysetPlan, settings: string): string {
  const { read, keyset, count } = plan
  const { limit } = read.range
  const from = sourceSql(read)
  const left = keyset.keys.map(({ field }) => fieldSql(writer, read.alias, field))
  const compared = keyset.keys.flatMap((key, index): Compared[] => {
    const value = keyset.after?.[index]
    if (value === undefined) return []
    return [{ key, left: left[index] ?? '', right: value === null ? undefined : valueSql(writer, key, value) }]
  })
  const page = limit === undefined ? read : { ...read, range: { offset: 0, limit: limit + 1 } }
  const keyList = `json_build_array(${left.map(key => `(${key})::text`).join(', ')})::text AS "rst_key"`
  const { text, names } = keyedSql(writer, page, from, compared.length === 0 ? [] : [afterSql(compared)], keyList)
  checkNames([...names, 'rst_key'])
  const shown = names.length === 0 ? '1 AS "rst_nothing"' : names.map(quoteIdentifier).join(', ')
  const most = limit === undefined ? '' : ` LIMIT ${limitSql(writer, limit)}`
  const ends =
    limit === undefined || limit === 0
      ? 'NULL::text[]'
      : `(SELECT array_agg("rst_key") FROM (SELECT "rst_key" FROM rst_keyed OFFSET ${writer.value(String(limit - 1))}) AS rst_ends)`
  const total =
    count === undefined || count === 'planned'
      ? 'NULL::int8'
      : `(SELECT count(*) FROM (${countableSql(writer, read, from)}) AS rst_counted)`
  return (
    `WITH rst_keyed AS MATERIALIZED (${text}), rst_source AS (SELECT ${shown} FROM rst_keyed${most}) ` +
    `SELECT ${total} AS total, count(*) AS rows, ${ends} AS location, ${settings}, NULL::text AS updated, ` +
    `${bodySql(plan.body, { scalar: false, shown: 'all' })} AS body FROM rst_source AS rst_rows`
  )
}
