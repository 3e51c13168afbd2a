/** For tests of the parser and the planner: the texts of a refusal. */
import { csvQuoteFollowed, csvQuoteOpen, emptyCsv, unevenCsv } from '../errors/catalogue.ts'
import { RestError } from '../errors/rest-error.ts'

/** The RestError that this call throws. Passes other errors on. No error is a failure. */
export function refusal(run: () => unknown): RestError {
  try {
    run()
  } catch (error) {
    if (error instanceof RestError) return error
    throw error
  }
  throw new Error('the call refused nothing')
}

/** The bytes, split at these positions, in any order, also within a character. */
export function splitAt(bytes: Buffer, positions: readonly number[]): Buffer[] {
  const inside = [...new Set(positions)]
    .filter(position => position > 0 && position < bytes.length)
    .sort((a, b) => a - b)
  return [0, ...inside].map((from, index) => Buffer.from(bytes.subarray(from, inside[index])))
}

/** A quoted CSV field from its opening quote on. A quote inside is doubled. */
function quotedField(text: string, opening: number): { field: string; end: number } {
  let field = ''
  for (let from = opening + 1; ; ) {
    const quote = text.indexOf('"', from)
    if (quote === -1) throw csvQuoteOpen()
    field += text.slice(from, quote)
    if (text[quote + 1] !== '"') return { field, end: quote + 1 }
    field += '"'
    from = quote + 2
  }
}

/** The records of CSV (RFC 4180), parsed as a whole. This is a reference for the streaming reader. */
function csvRecords(text: string): string[][] {
  const records: string[][] = []
  let record: string[] = []
  const separator = /[,\r\n]/g
  for (let at = 0; at < text.length; ) {
    if (records.length > 0 && record.length === 0 && /[\r\n]/.test(text[at] ?? '')) {
      at++
      continue
    }
    if (text[at] === '"') {
      const { field, end } = quotedField(text, at)
      record.push(field)
      at = end
    } else {
      separator.lastIndex = at
      const end = separator.exec(text)?.index ?? text.length
      record.push(text.slice(at, end))
      at = end
    }
    if (text[at] === ',') {
      at++
      if (at === text.length) record.push('')
      else continue
    }
    if (at < text.length && text[at] !== '\r' && text[at] !== '\n') {
      throw csvQuoteFollowed()
    }
    at += text.startsWith('\r\n', at) ? 2 : 1
    records.push(record)
    record = []
  }
  return records
}

/** CSV as rows. */
export function parsedCsv(text: string): unknown[] {
  const [header, ...records] = csvRecords(text)
  if (header === undefined) throw emptyCsv()
  if (records.some(record => record.length !== header.length)) {
    throw unevenCsv()
  }
  return records.map(record =>
    Object.fromEntries(header.map((name, index) => [name, record[index] === 'NULL' ? null : record[index]])),
  )
}
