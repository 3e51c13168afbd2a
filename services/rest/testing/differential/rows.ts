/**
 * A response's rows in a normal form. They are in order if the request has an order; otherwise they are sorted. The
 * keys of each row are sorted.
 */

import type { Answer } from '../../../testing/client.ts'
import { type Entry, type Json, jsonText, parseJson } from './json.ts'
import { type Level, levelsOf } from './levels.ts'
import { isWrite, type SentRequest } from './request.ts'

type Shape = { readonly isOrdered: boolean; readonly inner: ReadonlyMap<string, Shape> }

/** The embeddings of a spread belong to the level above it. */
const shown = ({ embedded }: Level): Level[] => embedded.flatMap(level => (level.isSpread ? shown(level) : [level]))

function shapeOf(sent: SentRequest, level: Level): Shape {
  // PostgREST 12.0.2 does not order the returned rows of a write.
  const isOfWrite = level.prefix === '' && isWrite(sent)
  const isOrdered = !isOfWrite && sent.query.some(([name]) => name === `${level.prefix}order`)
  return { isOrdered, inner: new Map(shown(level).map(one => [one.name, shapeOf(sent, one)])) }
}

/** A column that is selected twice can be a duplicate key or a single key. */
const distinct = (all: readonly string[]): string[] => [...new Set(all)].sort()

/**
 * An embedding hides a column with the same name, or the row has both. For a duplicate key, parsers use the last value.
 */
function shownOf(entries: readonly Entry[], inner: Shape['inner']): readonly Entry[] {
  const isEmbedded = ([, value]: Entry) => typeof value !== 'string'
  const last = new Map(entries.map(entry => [entry[0], entry]))
  return entries.filter(
    entry =>
      (inner.has(JSON.parse(entry[0])) || last.get(entry[0]) === entry) &&
      (!inner.has(JSON.parse(entry[0])) ||
        isEmbedded(entry) ||
        (entry[1] === 'null' && !entries.some(other => other[0] === entry[0] && isEmbedded(other)))),
  )
}

const rowOf = (json: Json, { inner }: Shape): string =>
  typeof json === 'string' || 'list' in json
    ? jsonText(json)
    : `{${distinct(
        shownOf(json.entries, inner).map(([key, value]) => {
          const shape = inner.get(JSON.parse(key))
          return `${key}:${shape === undefined ? jsonText(value) : rowsOf(value, shape)}`
        }),
      ).join()}}`

function rowsOf(json: Json, shape: Shape): string {
  if (typeof json === 'string' || !('list' in json)) return rowOf(json, shape)
  const rows = json.list.map(row => rowOf(row, shape))
  const isOfRows = json.list.some(row => typeof row !== 'string' && 'entries' in row)
  return `[${(shape.isOrdered || !isOfRows ? rows : rows.sort()).join()}]`
}

/** CSV: the cells of each line. An empty line has no columns. */
function linesOf(csv: string): string[][] {
  const lines: string[][] = [[]]
  for (const [, cell = '', end] of csv.matchAll(/((?:"(?:[^"]|"")*"|[^",\n])*)(,|\n|$)/g)) {
    lines.at(-1)?.push(cell)
    if (end !== '\n' && end !== ',') break
    if (end === '\n') lines.push([])
  }
  return lines
}

function cellOf(cell: string, shape: Shape | undefined): string {
  const bare = cell.startsWith('"') ? cell.slice(1, -1).replaceAll('""', '"') : cell
  const json = shape && parseJson(bare)
  return json === undefined || shape === undefined ? cell : rowsOf(json, shape)
}

function recordsOf(csv: string, { isOrdered, inner }: Shape): string {
  const [names = [], ...lines] = linesOf(csv)
  const rows = lines.map(line =>
    distinct(
      line.map((cell, index) => {
        const name = names[index] ?? ''
        return `${name}=${cellOf(cell, inner.get(name.replace(/^"(.*)"$/s, '$1')))}`
      }),
    ).join(),
  )
  return [distinct(names).join(), ...(isOrdered ? rows : rows.sort())].join('\n')
}

/** A response's body in a normal form, so that equivalent bodies are equal. */
export function bodyOf(sent: SentRequest, { headers, text }: Answer): string {
  const shape = shapeOf(sent, levelsOf(sent))
  const type = headers['content-type'] ?? ''
  if (type.startsWith('text/csv')) return recordsOf(text, shape)
  const json = /json/.test(type) ? parseJson(text) : undefined
  return json === undefined ? text : rowsOf(json, shape)
}
