/**
 * Cursors of results: the position at which a statement's rows continue. A cursor is valid for one statement, one
 * database and one caller, and for an hour. Any process with the same sealing key can read the cursor. The cursor has
 * the position, not the rows, so the statement runs again.
 */
import { createHash, createHmac, hkdfSync, timingSafeEqual } from 'node:crypto'
import type { DatabaseSettings } from '../configuration/types.ts'
import type { CallContext } from '../core/call.ts'

/** The query that a cursor continues. */
type Subject = {
  readonly statement: string
  readonly database: DatabaseSettings
  readonly context: CallContext
}

export type Cursors = {
  at(offset: number, subject: Subject): string
  /** Returns the position to continue at, or an error message. */
  offsetOf(cursor: string, subject: Subject): number | string
}

const lifetimeMs = 3_600_000
const sealBytes = 12

const foreign =
  'cursor: is invalid, or belongs to another query, database or caller. A restart of a server without a configured secret invalidates all cursors. Repeat the query unchanged, or omit the cursor to start from the first page.'
const tooOld = `cursor: is older than ${lifetimeMs / 60_000} minutes. Omit the cursor to start from the first page.`

export function createCursors(sealingKey: Uint8Array, now: () => number): Cursors {
  const secret = Buffer.from(hkdfSync('sha256', sealingKey, '', 'espalier mcp: cursors of results', 32))

  function sealOf(offset: string, expires: string, { statement, database, context }: Subject): Buffer {
    const { name, host, port, database: within } = database
    const digest = createHash('sha256').update(statement).digest('base64url')
    return createHmac('sha256', secret)
      .update(JSON.stringify([offset, expires, digest, name, host, port, within, context.caller.principal]))
      .digest()
      .subarray(0, sealBytes)
  }

  return {
    at(offset, subject) {
      const [position, expires] = [offset.toString(36), Math.ceil((now() + lifetimeMs) / 1_000).toString(36)]
      return `${position}.${expires}.${sealOf(position, expires, subject).toString('base64url')}`
    },
    offsetOf(cursor, subject) {
      const [, position = '', expires = '', seal = ''] =
        /^([0-9a-z]{1,8})\.([0-9a-z]{1,10})\.([\w-]{16})$/.exec(cursor) ?? []
      if (seal === '' || !timingSafeEqual(Buffer.from(seal, 'base64url'), sealOf(position, expires, subject)))
        return foreign
      return Number.parseInt(expires, 36) * 1_000 < now() ? tooOld : Number.parseInt(position, 36)
    },
  }
}
