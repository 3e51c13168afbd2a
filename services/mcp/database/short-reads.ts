/**
 * Short reads of one caller that arrive at the same time share a connection: they are sent in one write, one after
 * another, each in its own transaction. Callers never share a connection with each other, so none waits behind another
 * caller's statement.
 */

import { afterFailure } from '../../postgres/bounded-transaction.ts'
import type { Connection } from '../../postgres/connection.ts'
import { Evicted } from '../../postgres/errors.ts'
import type { Pool } from '../../postgres/pool.ts'
import type { Step, Taken } from '../../postgres/run.ts'
import { rollBack } from '../../postgres/transact.ts'
import type { Shares } from './shares.ts'

/** Reads queued behind a statement that takes longer run again on a connection of their own. */
const usualSlowMs = 20
/**
 * Limits of reads that wait for a connection to open, and of the search for capacity. Further reads run by themselves.
 */
const mostWaiting = 100
const maximumWaitMs = 100

type ShortRead = {
  /** The caller whose share the connection counts against. */
  readonly owner: string | undefined
  /** A transaction that is rolled back at its end. */
  readonly steps: readonly Step[]
  readonly expectedMs: number
  readonly signal: AbortSignal
  /** Called when the statements are sent. */
  readonly onBegin: () => void
}

export type ShortReads = {
  /**
   * @throws Evicted if it should run again on a connection of its own; DatabaseError, ConnectionFailure,
   * AcquisitionTimeout; the abort reason of the signal
   */
  run(read: ShortRead): Promise<Taken>
}

/** A connection of an owner, or its acquisition, and how many reads wait for it. */
type Joinable = { readonly opening: Promise<Connection>; waiting: number }

export function createShortReads(pool: Pool, shares: Shares, slowMs = usualSlowMs): ShortReads {
  /** The connection that each owner's next read joins. */
  const joinable = new Map<string | undefined, Joinable>()

  async function opened(owner: string | undefined, signal: AbortSignal, forget: () => void): Promise<Connection> {
    const giveBack = await shares.take(owner, signal)
    try {
      const connection = await pool.acquire()
      const free = async () => {
        forget()
        if (connection.transaction !== 'idle') await rollBack(connection, afterFailure)
        pool.release(connection)
        giveBack()
      }
      connection.share(() => void free(), slowMs)
      return connection
    } catch (error) {
      giveBack()
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
   * Runs on a connection in the same event loop turn in which it has capacity: a turn later, another owner may have it.
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
      // The reason of a failed connection is reported to the call that opened it.
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
