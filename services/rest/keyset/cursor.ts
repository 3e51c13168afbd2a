/**
 * A cursor: where a page has ended, as a client hands it back. It promises that one is taken only by a request of the same shape: the same relation, filters, order and
 * columns. It hides nothing, and need not: whoever could change it could ask by filters for the same. Pure.
 */
import { createHash } from 'node:crypto'
import { cursorOfAnother, cursorTooLong, cursorUnreadable } from '../errors/catalogue.ts'

/** The values of the columns that a page is ordered by, as Postgres writes them. */
export type Position = readonly (string | null)[]

/** What of a request decides which rows come, and in which order. */
export type Shape = {
  readonly schema: string
  readonly relation: string
  /** Of all parameters but the cursor, sorted. */
  readonly canonicalQuery: string
}

/** A head has to have room for it, and for the rest of the query. */
const maximumLength = 4_096

const digestOf = ({ schema, relation, canonicalQuery }: Shape): string => {
  // How many rows a page has may change from one to the next.
  const query = canonicalQuery.split('&').filter(parameter => !parameter.startsWith('limit='))
  return createHash('sha256')
    .update(JSON.stringify([schema, relation, query]))
    .digest('base64url')
    .slice(0, 16)
}

/** @throws RestError where it would be too long to be sent back */
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

/** @throws RestError of what is no cursor, or one of another request */
export function decodeCursor(shape: Shape, text: string): Position {
  const [digest, ...values] = parsed(text) ?? []
  if (typeof digest !== 'string' || values.length === 0 || !values.every(isValue)) throw cursorUnreadable()
  if (digest !== digestOf(shape)) throw cursorOfAnother()
  return values
}
