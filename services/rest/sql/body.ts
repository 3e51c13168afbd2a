/** Builds the response body from rows. The expressions are aggregates over `rst_rows`. */
import { qualified } from '../../postgres/quote.ts'
import type { BodyPlan } from '../plan/types.ts'

/**
 * How the rows are formatted: as rows, or as one value each (for a function that returns a scalar). Also how many rows
 * the body contains: all, the only row, or the first row.
 */
export type Rows = { readonly scalar: boolean; readonly shown: 'all' | 'only' | 'first' }

const stripped = (expression: string, stripNulls: boolean) =>
  stripNulls ? `json_strip_nulls(${expression})` : expression

/** The columns' names, then a line for each row in the text form of a record (Postgres manual, section 8.16.6). */
const csvNames = `(SELECT coalesce(string_agg(key, ','), '') FROM (
    SELECT json_object_keys(row_to_json(rst_head)) AS key FROM (SELECT * FROM rst_source LIMIT 1) AS rst_head
  ) AS keys) || chr(10)`
const csvRow = `substr(rst_rows::text, 2, length(rst_rows::text) - 2)`
const csv = `${csvNames} || coalesce(string_agg(${csvRow}, chr(10)), '')`

const geojson = `json_build_object('type', 'FeatureCollection', 'features', coalesce(json_agg(ST_AsGeoJSON(rst_rows)::json), '[]'))`

/**
 * Writes one value per line. Replaces line breaks in a value with spaces: they can only be white space between JSON
 * tokens, because JSON strings escape line breaks. They occur in json columns and between the rows of an embedding.
 */
const line = (json: string) => `translate(coalesce(${json}::text, 'null'), E'\\n\\r', '  ')`

/**
 * A body that is sent row by row: an expression for the text before the first row, an expression for each row's text,
 * the separator, and the end.
 */
export type RowBody = {
  readonly opening: string
  readonly row: string
  readonly separator: string
  readonly closing: string
}

/** The joined rows have the same bytes as the body built as one value. Undefined if the format requires one value. */
export function rowBodySql({ shape }: BodyPlan): RowBody | undefined {
  switch (shape.kind) {
    case 'json': {
      const row = `${stripped('row_to_json(rst_rows)', shape.stripNulls)}::text`
      // json_agg separates rows by this text. json_strip_nulls separates them by a comma.
      return { opening: `'['`, row, separator: shape.stripNulls ? ',' : ', \n ', closing: ']' }
    }
    case 'csv':
      return { opening: csvNames, row: csvRow, separator: '\n', closing: '' }
    case 'ndjson':
      return { opening: `''`, row: `${line('row_to_json(rst_rows)')} || E'\\n'`, separator: '', closing: '' }
    default:
      return undefined
  }
}

/**
 * The text of a single row. Aggregating text costs less than aggregating an array. The array is used only if there may
 * be several rows.
 */
const oneOf = (json: string, { shown }: Rows): string =>
  `coalesce(${shown === 'first' ? `(array_agg(${json}::text))[1]` : `string_agg(${json}::text, ',')`}, 'null')`

/** The expression for the body. The rows are in `rst_source`; the outer query gives them the alias `rst_rows`. */
export function bodySql({ shape }: BodyPlan, rows: Rows): string {
  const { scalar, shown } = rows
  switch (shape.kind) {
    case 'none':
      return `''`
    case 'object':
    case 'json': {
      if (shape.kind === 'object' || shown !== 'all') {
        const one = scalar ? 'to_json(rst_rows.pgrst_scalar)' : 'row_to_json(rst_rows)'
        return oneOf(stripped(one, shape.stripNulls), rows)
      }
      const all = scalar ? 'json_agg(rst_rows.pgrst_scalar)' : 'json_agg(rst_rows)'
      return `coalesce(${stripped(all, shape.stripNulls)}, '[]')`
    }
    case 'csv':
      return csv
    case 'ndjson': {
      const text = `${line(scalar ? 'to_json(rst_rows.pgrst_scalar)' : 'row_to_json(rst_rows)')} || E'\\n'`
      return shown === 'first' ? `coalesce((array_agg(${text}))[1], '')` : `coalesce(string_agg(${text}, ''), '')`
    }
    case 'geojson':
      return geojson
    case 'handler': {
      const { aggregate, subject } = shape.handler
      if (aggregate === undefined) return '(SELECT pgrst_scalar FROM rst_source)'
      if (scalar) return `${qualified(aggregate)}(rst_rows.pgrst_scalar)`
      return `${qualified(aggregate)}(rst_rows${subject === undefined ? '' : `::${qualified(subject)}`})`
    }
  }
}
