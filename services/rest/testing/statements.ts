/** For tests of SQL: the statements of a request, and their common parts. */
import type { SchemaCache } from '../../schema-cache/types.ts'
import type { PlanSettings } from '../plan/context.ts'
import { type Rendered, render } from '../sql/index.ts'
import type { Value } from '../sql/statement.ts'
import { planned, sampleCache } from './schema-cache.ts'

export type RequestOptions = { prefer?: string; accept?: string; body?: string; type?: string }

export const rendered = (
  line: string,
  { prefer, accept, body, type }: RequestOptions = {},
  settings: Partial<PlanSettings> = {},
  cache: SchemaCache = sampleCache,
): Rendered => {
  const headers = { ...(prefer && { prefer }), ...(accept && { accept }), ...(type && { 'content-type': type }) }
  return render(planned(line, { headers, ...(body === undefined ? {} : { body }) }, cache, settings))
}

/** The values as text. Binary values are marked. */
export const shownValues = (values: readonly Value[]): unknown[] =>
  values.map(value => {
    if (typeof value === 'string' || value === null) return value
    const isBinary = 'binary' in value
    const pieces = isBinary ? value.binary : value
    const text = Buffer.concat(Array.isArray(pieces) ? pieces : [pieces as Buffer]).toString()
    return isBinary ? { binary: text } : text
  })

const setting = (name: string) => `nullif(current_setting('${name}', true), '')`
export const settings = `${setting('response.headers')} AS headers, ${setting('response.status')} AS status`
export const arrayOfRows = `coalesce(json_agg(rst_rows), '[]')`

type Parts = { total?: string; rows?: string; location?: string; updated?: string; body?: string; from?: string }

/** The response's row, over the rows of `source`. */
export const answering = (source: string, parts: Parts = {}): string => {
  const { total = 'NULL::int8', rows = 'count(*)', location = 'NULL::text[]', updated = 'NULL::text' } = parts
  const { body = arrayOfRows, from = 'rst_source AS rst_rows' } = parts
  return (
    `WITH ${source} SELECT ${total} AS total, ${rows} AS rows, ${location} AS location, ${settings}, ` +
    `${updated} AS updated, ${body} AS body FROM ${from}`
  )
}
