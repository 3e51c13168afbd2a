/** Inserts, updates and deletes, and their results. */

import { qualified, quoteIdentifier } from '../../postgres/quote.ts'
import type { Condition, Plan, Write, WriteSource, WrittenColumn } from '../plan/types.ts'
import { conditionSql, whereSql } from './condition.ts'
import { arrayLiteral, type StatementWriter } from './statement.ts'

type WritePlan = Extract<Plan, { kind: 'write' }>

const body = 'rst_body'

/** The value of a column in the payload's record. */
function valueSql(writer: StatementWriter, { useDefaults }: WriteSource, column: WrittenColumn): string {
  const own = `${body}.${quoteIdentifier(column.name)}`
  const converted = column.fromJson === undefined ? own : `${qualified(column.fromJson)}(${own})`
  if (!useDefaults || column.default === null) return converted
  // The default is an expression of the catalog. Postgres evaluates it only for rows that need it.
  return `CASE WHEN (rst_element.value -> ${writer.sharedValue(column.key)}) IS NULL THEN ${column.default} ELSE ${converted} END`
}

/** The records that a JSON function returns, as rows of `rst_body`. Renames the JSON's keys to the columns' names. */
function recordsSql(records: string, columns: readonly WrittenColumn[]): string {
  const list = columns.map(
    ({ key, type, fromJson }) => `${quoteIdentifier(key)} ${fromJson === undefined ? type : 'json'}`,
  )
  const definition = `(${list.join(', ')})`
  if (columns.every(({ key, name }) => key === name)) return `${records} AS ${body}${definition}`
  const named = columns.map(({ key, name }) => `rst_record.${quoteIdentifier(key)} AS ${quoteIdentifier(name)}`)
  return `LATERAL (SELECT ${named.join(', ')} FROM ${records} AS rst_record${definition}) AS ${body}`
}

/** The records of the payload as rows of `rst_body`. */
function payloadSql(writer: StatementWriter, { json, isArray, columns, useDefaults }: WriteSource): string {
  const payload = `${writer.value(json)}::json`
  if (columns.length === 0)
    return isArray ? `json_array_elements(${payload}) AS ${body}` : `(SELECT ${payload}) AS ${body}`
  if (!useDefaults) return recordsSql(`${isArray ? 'json_to_recordset' : 'json_to_record'}(${payload})`, columns)
  const elements = isArray ? `json_array_elements(${payload})` : `(SELECT ${payload})`
  return `${elements} AS rst_element(value), ${recordsSql('json_to_record(rst_element.value)', columns)}`
}

const conditionsSql = (writer: StatementWriter, source: string, conditions: readonly Condition[]) =>
  whereSql(conditions.map(one => conditionSql(writer, { source, children: [] }, one)))

/** Counts existing rows in the setting `rst.updated`, for the same transaction. */
const countUpdate = `set_config('rst.updated', (coalesce(nullif(current_setting('rst.updated', true), ''), '0')::int + 1)::text, true) <> ''`

function conflictSql({ onConflict, source }: Extract<Write, { kind: 'insert' }>): string {
  if (onConflict === undefined) return ''
  const target = ` ON CONFLICT (${onConflict.columns.map(quoteIdentifier).join(', ')})`
  if (onConflict.resolution === 'ignore' || source.columns.length === 0) return `${target} DO NOTHING`
  const set = source.columns.map(({ name }) => `${quoteIdentifier(name)} = EXCLUDED.${quoteIdentifier(name)}`)
  return `${target} DO UPDATE SET ${set.join(', ')} WHERE ${countUpdate}`
}

/** The columns of the written rows that the response needs. */
function returningSql({ returning, read }: WritePlan): string {
  const own = quoteIdentifier(read.alias)
  if (returning === 'all') return `${own}.*`
  if (returning.length === 0) return '1 AS "rst_nothing"'
  return returning.map(name => `${own}.${quoteIdentifier(name)} AS ${quoteIdentifier(name)}`).join(', ')
}

/** For a write that changes nothing: no rows, with the columns that the write would return. */
const nothingSql = (plan: WritePlan): string =>
  `SELECT ${returningSql(plan)} FROM ${qualified(plan.relation)} AS ${quoteIdentifier(plan.read.alias)} WHERE FALSE`

/** The write statement. `keepsRows`: the statement returns its rows; otherwise it returns none. */
export function writeSql(writer: StatementWriter, plan: WritePlan, keepsRows: boolean): string {
  const returning = keepsRows ? ` RETURNING ${returningSql(plan)}` : ''
  const { relation, write, read } = plan
  const target = `${qualified(relation)} AS ${quoteIdentifier(read.alias)}`
  switch (write.kind) {
    case 'delete':
      return `DELETE FROM ${target}${conditionsSql(writer, read.alias, write.conditions)}${returning}`
    case 'update': {
      const { columns } = write.source
      if (columns.length === 0) return nothingSql(plan)
      const from = payloadSql(writer, write.source)
      const values = columns.map(
        column => `${valueSql(writer, write.source, column)} AS ${quoteIdentifier(column.name)}`,
      )
      const set = columns.map(({ name }) => `${quoteIdentifier(name)} = rst_values.${quoteIdentifier(name)}`)
      const source = `(SELECT ${values.join(', ')} FROM ${from} LIMIT 1) AS rst_values`
      const where = conditionsSql(writer, read.alias, write.conditions)
      return `UPDATE ${target} SET ${set.join(', ')} FROM ${source}${where}${returning}`
    }
    case 'insert': {
      const { columns } = write.source
      const names = columns.length === 0 ? '' : ` (${columns.map(({ name }) => quoteIdentifier(name)).join(', ')})`
      const from = payloadSql(writer, write.source)
      const values = columns.map(column => valueSql(writer, write.source, column)).join(', ')
      const where = conditionsSql(writer, body, write.conditions)
      return `INSERT INTO ${target}${names} SELECT ${values} FROM ${from}${where}${conflictSql(write)}${returning}`
    }
  }
}

/** For one new row: the filters of its Location, by primary key, such as `{id=eq.1}`. */
export function locationSql(writer: StatementWriter, { locationKey }: WritePlan): string {
  if (locationKey.length === 0) return 'NULL::text[]'
  return `(SELECT array_agg(key || '=' || coalesce('eq.' || value, 'is.null')) FROM (
    SELECT each.key, each.value FROM (SELECT row_to_json(rst_one) AS row FROM rst_source AS rst_one LIMIT 1) AS data, json_each_text(data.row) AS each
    WHERE each.key = ANY (${writer.value(arrayLiteral(locationKey))})
  ) AS parts)`
}
