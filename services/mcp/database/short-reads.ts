/**
 * Short reads of one caller that come at the same time share a connection: they go out in one write, one behind the other, each in a transaction of its own. Callers never share
 * one with each other, so nobody waits behind another caller's statement.
 */

import { afterFailure } from '../../postgres/bounded-transaction.ts'
import type { Connection } from '../../postgres/connection.ts'
import { Displaced } from '../../postgres/errors.ts'
import type { Pool } from '../../postgres/pool.ts'
import type { Step, Taken } from '../../postgres/run.ts'
import { rollBack } from '../../postgres/transact.ts'
import type { Shares } from './shares.ts'

/** What stands behind a statement that takes longer runs again on a connection of its own. */
const usualSlowMs = 20
/** Reads that wait for a connection to be opened, and how long one looks for room. Others run by themselves. */
const mostWaiting = 100
const patienceMs = 100

type ShortRead = {
  /** Whose share the connection is taken from. */
  readonly owner: string | undefined
  /** A transaction that is rolled back at its end. */
  readonly steps: readonly Step[]
  readonly expectedMs: number
  readonly signal: AbortSignal
  /** Called when the statements are sent. */
  readonly onBegin: () => void
}

export type ShortReads = {
  /** @throws Displaced where it is to run again on a connection of its own; DatabaseError, ConnectionFailure, AcquisitionTimeout; what the signal is aborted with */
  run(read: ShortRead): Promise<Taken>
}

/** A connection of an owner, or its acquisition, and how many reads wait for it. */
type Joinable = { readonly opening: Promise<Connection>; waiting: number }

export function createShortReads(pool: Pool, shares: Shares, slowMs = usualSlowMs): ShortReads {
  /** What each owner's next read joins. */
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

  /** Runs on a connection in the turn in which there is room on it: a turn later it may be another owner's. */
  function begun(connection: Connection, { steps, expectedMs, signal, onBegin }: ShortRead): Promise<Taken> {
    onBegin()
    return connection.runShared(steps, true, expectedMs, signal)
  }

  async function run(read: ShortRead): Promise<Taken> {
    const { owner, expectedMs, signal } = read
    const began = performance.now()
    for (let known = joinable.get(owner); known !== undefined; known = joinable.get(owner)) {
      if (known.waiting >= mostWaiting || performance.now() - began > patienceMs) throw new Displaced()
      known.waiting++
      // Why it could not be opened is reported to the call that tried.
      const connection = await known.opening.catch(() => {
        throw new Displaced()
      })
      known.waiting--
      if (joinable.get(owner) !== known) continue
      if (connection.hasRoomFor(expectedMs, shares.isWaitedFor || pool.figures.waiting > 0))
        return begun(connection, read)
      joinable.delete(owner)
    }
    return begun(await open(owner, signal), read)
  }

  return { run }
}
