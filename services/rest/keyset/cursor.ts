/**
 * A cursor: the position after a page, as a client returns it. Only a request with the same relation, filters, order
 * and columns accepts it. It is not secret and not signed: a client that changes it could request the same rows with
 * filters. Pure.
 */
import { createHash } from 'node:crypto'
import { cursorOfAnother, cursorTooLong, cursorUnreadable } from '../errors/catalogue.ts'

/** The values of the ordering columns, as Postgres writes them. */
export type Position = readonly (string | null)[]

/** The parts of a request that decide the rows and their order. */
export type Shape = {
  readonly schema: string
  readonly relation: string
  /** All parameters except the cursor, sorted. */
  readonly canonicalQuery: string
}

/** It must fit in a request head together with the rest of the query. */
const maximumLength = 4_096

const digestOf = ({ schema, relation, canonicalQuery }: Shape): string => {
  // The page size may change between pages.
  const query = canonicalQuery.split('&').filter(parameter => !parameter.startsWith('limit='))
  return createHash('sha256')
    .update(JSON.stringify([schema, relation, query]))
    .digest('base64url')
    .slice(0, 16)
}

/** @throws RestError if it would be too long to be sent back */
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

/** @throws RestError if the text is not a cursor, or of another request */
export function decodeCursor(shape: Shape, text: string): Position {
  const [digest, ...values] = parsed(text) ?? []
  if (typeof digest !== 'string' || values.length === 0 || !values.every(isValue)) throw cursorUnreadable()
  if (digest !== digestOf(shape)) throw cursorOfAnother()
  return values
}
