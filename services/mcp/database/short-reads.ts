/**
 * Concurrent short reads of one caller share a connection. The server sends them in one write; they run one after
 * another, each in its own transaction. Two callers never share a connection, so no caller waits behind another
 * caller's statement.
 */

import { afterFailure } from '../../postgres/bounded-transaction.ts'
import type { Connection } from '../../postgres/connection.ts'
import { Evicted } from '../../postgres/errors.ts'
import type { Pool } from '../../postgres/pool.ts'
import type { Step, Taken } from '../../postgres/run.ts'
import { rollBack } from '../../postgres/transact.ts'
import type { Shares } from './shares.ts'

/** If a statement takes longer, the reads queued behind it run again on their own connections. */
const usualSlowMs = 20
/**
 * Limits the reads that wait for one connection to open, and the time of the search for a connection. Further reads run
 * alone.
 */
const mostWaiting = 100
const maximumWaitMs = 100

type ShortRead = {
  /** The caller whose share includes the connection. */
  readonly owner: string | undefined
  /** A transaction that ends with a rollback. */
  readonly steps: readonly Step[]
  readonly expectedMs: number
  readonly signal: AbortSignal
  /** Called when the statements are sent. */
  readonly onBegin: () => void
}

export type ShortReads = {
  /**
   * @throws Evicted if the read should run again on its own connection; DatabaseError, ConnectionFailure,
   *   AcquisitionTimeout; the signal's abort reason
   */
  run(read: ShortRead): Promise<Taken>
}

/** A caller's connection, which may still be opening, and the number of reads that wait for it. */
type Joinable = { readonly opening: Promise<Connection>; waiting: number }

export function createShortReads(pool: Pool, shares: Shares, slowMs = usualSlowMs): ShortReads {
  /** The connection that each caller's next read joins. */
  const joinable = new Map<string | undefined, Joinable>()

  async function opened(owner: string | undefined, signal: AbortSignal, forget: () => void): Promise<Connection> {
    const release = await shares.take(owner, signal)
    try {
      const connection = await pool.acquire()
      const free = async () => {
        forget()
        if (connection.transaction !== 'idle') await rollBack(connection, afterFailure)
        pool.release(connection)
        release()
      }
      connection.share(() => void free(), slowMs)
      return connection
    } catch (error) {
      release()
      throw error
    }
  }

  function open(owner: string | undefined, signal: AbortSignal): Promise<Connection> {
    const forget = () => {
      if (joinable.get(owner) === made) joinable.delete(owner)
    }
    const opening = opened(owner, signal, forget)
    const made = { opening, waiting: 0 }
    joinable.set(owner, made)
    opening.catch(forget)
    return opening
  }

  /**
   * Starts the read in the same event loop turn in which the connection has capacity. One turn later, another read
   * could have taken the capacity.
   */
  function begun(connection: Connection, { steps, expectedMs, signal, onBegin }: ShortRead): Promise<Taken> {
    onBegin()
    return connection.runShared(steps, true, expectedMs, signal)
  }

  async function run(read: ShortRead): Promise<Taken> {
    const { owner, expectedMs, signal } = read
    const began = performance.now()
    for (let known = joinable.get(owner); known !== undefined; known = joinable.get(owner)) {
      if (known.waiting >= mostWaiting || performance.now() - began > maximumWaitMs) throw new Evicted()
      known.waiting++
      // The call that opened the connection reports why it failed.
      const connection = await known.opening.catch(() => {
        throw new Evicted()
      })
      known.waiting--
      if (joinable.get(owner) !== known) continue
      if (connection.acceptsShared(expectedMs, shares.isWaitedFor || pool.figures.waiting > 0))
        return begun(connection, read)
      joinable.delete(owner)
    }
    return begun(await open(owner, signal), read)
  }

  return { run }
}
