/**
 * `espalier move follow`: applies the source's changes until it is stopped. It reconnects to both servers for as long
 * as that takes; only a fault of the data, of the login or of the slot ends it. While the source is away it holds the
 * move's lock, so that a second command is refused.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { type Client, DatabaseError, escapeLiteral } from 'pg'
import type { Endpoint } from '../../../instance/import/contract.ts'
import { type Applier, createApplier, isDataFault, MoveError } from './apply.ts'
import type { Move } from './copy.ts'
import { openSession, queryValue, withSession } from './endpoints.ts'
import { parsePosition } from './pgoutput.ts'
import { LockedError, lockMove, type MoveState, readState } from './state.ts'
import { openStream } from './stream.ts'

const confirmMs = 1_000
const reportMs = 10_000
const graceMs = 2_000
const waitMs = 1_000
/** In which a session answers after an interruption. */
const usableMs = 10_000
/** With a goal the source is asked for its position. */
const askMs = 100
const firstRetryMs = 1_000
const longestRetryMs = 30_000

/** @throws Error if this move is not at the step */
export async function stateFor(client: Client, step: 'follow' | 'finish'): Promise<MoveState> {
  const state = await readState(client)
  if (state === undefined) throw new MoveError('this database has no move: begin with "espalier move copy"')
  if (state.phase === 'copying')
    throw new MoveError('the copy was interrupted: run "espalier move cancel", and begin with another new database')
  if (state.phase === 'done' && step === 'follow')
    throw new MoveError('the move is complete here: run "espalier move finish" again, which drops the slot')
  return state
}

/** Follows with reconnections. @returns when `goal` is reached, or when the signal stops it */
export async function follow(move: Move, goal?: bigint): Promise<void> {
  const { signal, report } = move
  let retryMs = firstRetryMs
  let isFirst = true
  let locked: Client | undefined
  while (!signal.aborted) {
    const startedAt = Date.now()
    try {
      if (locked !== undefined && !(await isUsable(locked, signal))) {
        await end(locked)
        locked = undefined
      }
      locked ??= await openLocked(move.target)
      await followOnce(move, locked, goal)
      await end(locked)
      return
    } catch (error) {
      const isKept = !signal.aborted && !isPermanent(error) && locked !== undefined && (await isUsable(locked, signal))
      if (locked !== undefined && !isKept) {
        await end(locked)
        locked = undefined
      }
      if (signal.aborted) return
      if (isPermanent(error) || (isFirst && error instanceof LockedError)) throw error
      isFirst = false
      if (Date.now() - startedAt > longestRetryMs) retryMs = firstRetryMs
      report(`interrupted: ${error instanceof Error ? error.message : String(error)}; retrying in ${retryMs / 1000} s`)
      await delay(retryMs, undefined, { signal }).catch(() => {})
      retryMs = Math.min(longestRetryMs, retryMs * 2)
    }
  }
  if (locked !== undefined) await end(locked)
}

async function openLocked(target: Endpoint): Promise<Client> {
  const client = await openSession(target)
  try {
    await lockMove(client)
    return client
  } catch (error) {
    await end(client)
    throw error
  }
}

/** A server that does not answer cannot delay the end. */
async function end(client: Client): Promise<void> {
  const timer = setTimeout(() => client.connection.stream.destroy(), graceMs)
  await client.end().catch(() => {})
  clearTimeout(timer)
}

/** Rolls back what a failed attempt left open. A session that does not answer is given up. */
async function isUsable(client: Client, signal: AbortSignal): Promise<boolean> {
  const timer = setTimeout(() => client.connection.stream.destroy(), usableMs)
  const stop = destroyAfterAbort(client, signal)
  try {
    await client.query('ROLLBACK')
    return true
  } catch {
    return false
  } finally {
    clearTimeout(timer)
    stop()
  }
}

/** A statement that waits, for a lock or for a server that does not answer, must not outlast a deadline. */
function destroyAfterAbort(client: Client, signal: AbortSignal): () => void {
  const onAbort = () => setTimeout(() => client.connection.stream.destroy(), graceMs).unref()
  if (signal.aborted) onAbort()
  else signal.addEventListener('abort', onAbort, { once: true })
  return () => signal.removeEventListener('abort', onAbort)
}

function isPermanent(error: unknown): boolean {
  return error instanceof MoveError || (error instanceof DatabaseError && isDataFault(error.code ?? ''))
}

async function followOnce(move: Move, client: Client, goal: bigint | undefined): Promise<void> {
  const { signal } = move
  const stop = destroyAfterAbort(client, signal)
  try {
    await followLocked(move, client, goal)
  } finally {
    stop()
  }
}

async function followLocked(move: Move, client: Client, goal: bigint | undefined): Promise<void> {
  const { source, signal } = move
  const state = await stateFor(client, 'follow')
  await withSession(source, there => checkSlot(there, state))
  const applier = createApplier(client, state.position)
  const stream = await openStream(source, state.name, applier.position())
  const reports = startReports(move, applier)
  const confirming = setInterval(() => stream.confirm(applier.recorded()), confirmMs)
  try {
    while (!signal.aborted && (goal === undefined || applier.position() < goal)) {
      if (stream.isEmpty()) await applier.settle()
      // An idle server reports its position only if asked.
      if (stream.isEmpty() && goal !== undefined) stream.confirm(applier.recorded(), true)
      const message = await stream.next(goal === undefined ? waitMs : askMs)
      if (message === undefined)
        await client.query('SELECT 1') // notices a lost target while the source is idle
      else {
        if (message.kind === 'data') await applier.message(message.payload)
        else {
          if (stream.isEmpty()) await applier.settle()
          applier.reached(message.end)
          if (message.wantsReply) {
            // A server that stops waits for this.
            await applier.settle(true)
            stream.confirm(applier.recorded())
          }
        }
      }
    }
    await applier.settle(true)
    stream.confirm(applier.recorded())
  } finally {
    clearInterval(confirming)
    reports.stop()
    await stream.close()
  }
}

/** The source forgets only what the record has: a slot that is ahead was read for another copy of this database. */
async function checkSlot(there: Client, { name, position }: MoveState): Promise<void> {
  // Older versions have no column wal_status.
  const slot = `SELECT jsonb_build_object('confirmed', confirmed_flush_lsn, 'isLost', coalesce(to_jsonb(s)->>'wal_status', '') = 'lost')
    FROM pg_replication_slots s WHERE slot_name = ${escapeLiteral(name)}`
  const found = await queryValue<{ confirmed: string; isLost: boolean } | undefined>(there, slot)
  if (found === undefined) throw new MoveError(`the source has no slot ${name}: begin again with a new database`)
  const { confirmed, isLost } = found
  if (isLost)
    throw new MoveError(
      `the source has removed WAL that the slot ${name} still needed: changes are missing. Raise max_slot_wal_keep_size on the source, run "espalier move cancel", and begin again with a new database`,
    )
  if (parsePosition(confirmed) > parsePosition(position))
    throw new MoveError(
      `the slot ${name} is ahead of this database, which was restored or is a copy: changes are missing. Run "espalier move cancel", and begin again with a new database`,
    )
}

/** Reports how far the target is behind the source's present position, which the stream does not contain. */
function startReports({ source, report }: Move, applier: Applier): { stop: () => void } {
  let isAsking = false
  let currentAt = Date.now()
  const show = async () => {
    if (isAsking) return
    isAsking = true
    try {
      const present = await withSession(source, client =>
        queryValue<string>(client, 'SELECT pg_current_wal_flush_lsn()::text'),
      )
      const lag = parsePosition(present) - applier.position()
      const now = Date.now()
      if (lag <= 0n) currentAt = now
      const seconds =
        lag <= 0n ? 0 : Math.max(0, Math.round((now - Math.max(currentAt, applier.committedAt() ?? 0)) / 1000))
      report(`following: ${applier.changes()} changes applied, ${lag > 0n ? lag : 0n} bytes and ${seconds} s behind`)
    } catch {
      // The stream fails in the same way, and reports the reason.
    } finally {
      isAsking = false
    }
  }
  const timer = setInterval(() => void show(), reportMs)
  return { stop: () => clearInterval(timer) }
}
