/** For tests of parsing and planning: what a refusal says. */
import { csvQuoteFollowed, csvQuoteOpen, emptyCsv, unevenCsv } from '../errors/catalogue.ts'
import { RestError } from '../errors/rest-error.ts'

/** The RestError that this throws; anything else that it throws goes through, and that it throws nothing is an error. */
export function refusal(run: () => unknown): RestError {
  try {
    run()
  } catch (error) {
    if (error instanceof RestError) return error
    throw error
  }
  throw new Error('nothing was refused')
}

/** Bytes in parts that are cut at these places, in any order, wherever they are in a character. */
export function cut(bytes: Buffer, places: readonly number[]): Buffer[] {
  const inside = [...new Set(places)].filter(place => place > 0 && place < bytes.length).sort((a, b) => a - b)
  return [0, ...inside].map((from, index) => Buffer.from(bytes.subarray(from, inside[index])))
}

/** A quoted field of CSV from its opening quote on; a quote inside is written twice. */
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

/** The records of CSV (RFC 4180) as a whole: what the reader of its parts is held against. */
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

/** CSV as its rows. */
export function wholeCsv(text: string): unknown[] {
  const [header, ...records] = csvRecords(text)
  if (header === undefined) throw emptyCsv()
  if (records.some(record => record.length !== header.length)) {
    throw unevenCsv()
  }
  return records.map(record =>
    Object.fromEntries(header.map((name, index) => [name, record[index] === 'NULL' ? null : record[index]])),
  )
}
