/**
 * Reads files with one document per row: CSV and JSON lines. Reads them as streams, so a file may be larger than
 * memory.
 */
import { Readable } from 'node:stream'
import { parse } from 'csv-parse'
import { z } from 'zod'
import { LoadError } from '../errors.ts'
import { passages } from './split.ts'
import { textBlocks } from './text.ts'
import type { Passage } from './types.ts'

type RowsOptions = { readonly name: string; readonly maximumTokens: number }

/** The maximum length of one row, in characters. */
const longestRow = 16_777_216

/** The passages of one row, numbered after the passages before it. `position`: the row's position in bytes. */
function rowPassages(
  document: string,
  row: number,
  text: string,
  position: number,
  before: number,
  maximumTokens: number,
): readonly Passage[] {
  return passages(document, textBlocks(text), maximumTokens).map((passage, index) => ({
    ...passage,
    ordinal: before + index,
    position,
    key: `${row}\n${document}\n${index}`,
  }))
}

/** Detects the separator in the first line. In locales with a decimal comma, spreadsheets write semicolons. */
const separatorOf = (line: string): string => {
  const counts = [',', ';', '\t'].map(separator => ({ separator, count: line.split(separator).length }))
  return counts.reduce((best, next) => (next.count > best.count ? next : best)).separator
}

/** Returns the first line, and the complete stream including this line. */
async function peekLine(
  texts: AsyncIterable<string>,
): Promise<{ readonly line: string; readonly all: AsyncIterable<string> }> {
  const iterator = texts[Symbol.asyncIterator]()
  const head = await iterator.next()
  const first = head.done ? '' : head.value
  async function* all(): AsyncGenerator<string> {
    yield first
    for (let next = await iterator.next(); !next.done; next = await iterator.next()) yield next.value
  }
  return { line: first.slice(0, Math.max(0, first.search(/[\r\n]|$/))), all: all() }
}

const csvRow = z.object({ record: z.array(z.string()), info: z.object({ bytes: z.number(), lines: z.number() }) })

/**
 * Each row becomes a document with one line for each column that has a value. The column `id` names the document.
 * @throws LoadError with the line
 */
export async function* csvPassages(
  texts: AsyncIterable<string>,
  { name, maximumTokens }: RowsOptions,
): AsyncGenerator<Passage> {
  const { line, all } = await peekLine(texts)
  const parser = parse({
    delimiter: separatorOf(line),
    info: true,
    skip_empty_lines: true,
    max_record_size: longestRow,
  })
  const source = Readable.from(all)
  source.on('error', error => parser.destroy(error))
  source.pipe(parser)
  let header: readonly string[] | undefined
  let [row, ordinal, position] = [0, 0, 0]
  try {
    for await (const item of parser) {
      const { record, info } = csvRow.parse(item)
      if (header === undefined) header = record.map((cell, index) => cell.trim() || `column ${index + 1}`)
      else {
        const found = csvRowPassages(name, header, record, { row: ++row, position, ordinal, maximumTokens })
        ordinal += found.length
        yield* found
      }
      position = info.bytes
    }
  } catch (error) {
    throw error instanceof LoadError ? error : new LoadError(`${name}: ${messageOf(error)}`, error)
  } finally {
    source.destroy()
    parser.destroy()
  }
}

const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error))

type RowPosition = {
  readonly row: number
  readonly position: number
  readonly ordinal: number
  readonly maximumTokens: number
}

function csvRowPassages(
  name: string,
  header: readonly string[],
  record: readonly string[],
  { row, position, ordinal, maximumTokens }: RowPosition,
): readonly Passage[] {
  const cells = record.map((cell, index) => ({ column: header[index] ?? '', value: cell.trim() }))
  const id = cells.find(({ column, value }) => column.toLowerCase() === 'id' && value !== '')?.value
  const text = cells
    .filter(({ value }) => value !== '')
    .map(({ column, value }) => `${column}: ${value}`)
    .join('\n')
  // A row with an id remains the same document even if it moves within its file.
  return rowPassages(id ?? `${name}#${row}`, id === undefined ? row : 0, text, position, ordinal, maximumTokens)
}

const jsonLine = z.object({
  id: z.union([z.string().min(1), z.number()]).optional(),
  _id: z.union([z.string().min(1), z.number()]).optional(),
  title: z.string().nullish(),
  text: z.string(),
})

/** Yields lines with their byte offsets. @throws LoadError */
async function* linesOf(
  texts: AsyncIterable<string>,
  name: string,
): AsyncGenerator<{ text: string; position: number }> {
  let rest = ''
  let position = 0
  for await (const piece of texts) {
    const lines = (rest + piece).split('\n')
    rest = lines.pop() ?? ''
    for (const text of lines) {
      yield { text, position }
      position += Buffer.byteLength(text) + 1
    }
    if (rest.length > longestRow) throw new LoadError(`${name}: has a line of more than ${longestRow} characters`)
  }
  if (rest !== '') yield { text: rest, position }
}

/**
 * Each line is a document: `{"id", "title", "text"}`, as in collections with judgements (`_id` in BEIR's collections).
 * @throws LoadError with the line
 */
export async function* jsonPassages(
  texts: AsyncIterable<string>,
  { name, maximumTokens }: RowsOptions,
): AsyncGenerator<Passage> {
  let [row, ordinal] = [0, 0]
  for await (const { text: line, position } of linesOf(texts, name)) {
    row++
    if (line.trim() === '') continue
    const { id, _id, title, text } = readLine(line, `${name} line ${row}`)
    const named = id ?? _id
    const document = named === undefined ? `${name}#${row}` : String(named)
    const content = [title ?? '', text].filter(part => part.trim() !== '').join('\n\n')
    const found = rowPassages(document, named === undefined ? row : 0, content, position, ordinal, maximumTokens)
    ordinal += found.length
    yield* found
  }
}

function readLine(line: string, location: string): z.output<typeof jsonLine> {
  let value: unknown
  try {
    value = JSON.parse(line)
  } catch {
    throw new LoadError(`${location}: is not JSON`)
  }
  const parsed = jsonLine.safeParse(value)
  if (parsed.success) return parsed.data
  const [issue] = parsed.error.issues
  throw new LoadError(`${location}: ${issue?.path.join('.') || 'the line'}: ${issue?.message ?? 'is invalid'}`)
}
