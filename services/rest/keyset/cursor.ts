/**
 * A cursor: the position after a page, in the form that a client returns. The service accepts it only in a request with
 * the same relation, filters, order and columns. It is neither secret nor signed: a client that changes the cursor
 * could request the same rows with filters. Pure.
 */
import { createHash } from 'node:crypto'
import { cursorOfAnother, cursorTooLong, cursorUnreadable } from '../errors/catalogue.ts'

/** The values of the ordering columns, as Postgres writes them. */
export type Position = readonly (string | null)[]

/** The parts of a request that decide which rows it returns and in which order. */
export type Shape = {
  readonly schema: string
  readonly relation: string
  /** All parameters except the cursor, sorted. */
  readonly canonicalQuery: string
}

/** The cursor must fit in a request head together with the rest of the query. */
const maximumLength = 4_096

const digestOf = ({ schema, relation, canonicalQuery }: Shape): string => {
  // Clients may change the page size between pages.
  const query = canonicalQuery.split('&').filter(parameter => !parameter.startsWith('limit='))
  return createHash('sha256')
    .update(JSON.stringify([schema, relation, query]))
    .digest('base64url')
    .slice(0, 16)
}

/** @throws RestError if the cursor would be too long for a request */
export function encodeCursor(shape: Shape, position: Position): string {
  const text = Buffer.from(JSON.stringify([digestOf(shape), ...position])).toString('base64url')
  if (text.length > maximumLength) throw cursorTooLong(maximumLength)
  return text
}

function parsed(text: string): readonly unknown[] | undefined {
  if (text.length > maximumLength || !/^[\w-]+$/.test(text)) return undefined
  try {
    const list: unknown = JSON.parse(Buffer.from(text, 'base64url').toString('utf8'))
    return Array.isArray(list) ? list : undefined
  } catch {
    return undefined
  }
}

const isValue = (value: unknown): value is string | null =>
  value === null || (typeof value === 'string' && !value.includes('\0'))

/** @throws RestError if the text is not a cursor, or belongs to another request */
export function decodeCursor(shape: Shape, text: string): Position {
  const [digest, ...values] = parsed(text) ?? []
  if (typeof digest !== 'string' || values.length === 0 || !values.every(isValue)) throw cursorUnreadable()
  if (digest !== digestOf(shape)) throw cursorOfAnother()
  return values
}
