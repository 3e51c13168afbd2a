/**
 * Cursors of results: where the rows of a statement go on, for the caller who was told, on any process with the same sealing key. A cursor is of one statement, one database and one
 * caller, and old after an hour. It is a place among the rows, not a copy of them: the statement runs again.
 */
import { createHash, createHmac, hkdfSync, timingSafeEqual } from 'node:crypto'
import type { DatabaseSettings } from '../configuration/types.ts'
import type { CallContext } from '../core/call.ts'

/** What a cursor goes on with. */
type Subject = {
  readonly statement: string
  readonly database: DatabaseSettings
  readonly context: CallContext
}

export type Cursors = {
  at(offset: number, subject: Subject): string
  /** Where it goes on, or what is wrong with it. */
  offsetOf(cursor: string, subject: Subject): number | string
}

const lifetimeMs = 3_600_000
const sealBytes = 12

const foreign =
  'cursor: is of another query, database or caller, or from before the server was started anew without a lasting secret. Repeat the query as it was, or leave the cursor out to begin anew.'
const tooOld = `cursor: is older than ${lifetimeMs / 60_000} minutes. Leave it out to begin anew.`

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
      const [place, expires] = [offset.toString(36), Math.ceil((now() + lifetimeMs) / 1_000).toString(36)]
      return `${place}.${expires}.${sealOf(place, expires, subject).toString('base64url')}`
    },
    offsetOf(cursor, subject) {
      const [, place = '', expires = '', seal = ''] =
        /^([0-9a-z]{1,8})\.([0-9a-z]{1,10})\.([\w-]{16})$/.exec(cursor) ?? []
      if (seal === '' || !timingSafeEqual(Buffer.from(seal, 'base64url'), sealOf(place, expires, subject)))
        return foreign
      return Number.parseInt(expires, 36) * 1_000 < now() ? tooOld : Number.parseInt(place, 36)
    },
  }
}
