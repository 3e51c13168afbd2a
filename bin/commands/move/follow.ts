/**
 * `espalier move follow`: applies the source's changes until the user stops it. It reconnects to both servers without a
 * time limit. Only a permanent fault of the data, the login or the slot stops it. While the source is unreachable, it
 * keeps the move's lock, so that a second command is refused.
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
/** The timeout for the first response of a session after an interruption. */
const sessionCheckMs = 10_000
/** With a goal, the time between two requests for the source's position. */
const goalPollMs = 100
const firstRetryMs = 1_000
const longestRetryMs = 30_000

/** Reads the state of the move. @throws MoveError if the move is not ready for the step */
export async function stateFor(client: Client, step: 'follow' | 'finish'): Promise<MoveState> {
  const state = await readState(client)
  if (state === undefined) throw new MoveError('this database has no move: start with "espalier move copy"')
  if (state.phase === 'copying')
    throw new MoveError('the copy was interrupted: run "espalier move cancel", and start again with a new database')
  if (state.phase === 'done' && step === 'follow')
    throw new MoveError('this database is complete: run "espalier move finish" again, which drops the slot')
  return state
}

/** Applies changes, and reconnects after interruptions. Resolves when `goal` is reached, or when the signal aborts. */
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

/** Ends the session, or destroys its socket after `graceMs` if the server does not respond. */
async function end(client: Client): Promise<void> {
  const timer = setTimeout(() => client.connection.stream.destroy(), graceMs)
  await client.end().catch(() => {})
  clearTimeout(timer)
}

/** Rolls back the transaction of a failed attempt. Returns false if the session fails or does not respond. */
async function isUsable(client: Client, signal: AbortSignal): Promise<boolean> {
  const timer = setTimeout(() => client.connection.stream.destroy(), sessionCheckMs)
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

/** Destroys the socket after an abort: a statement may wait for a lock, or for a server that does not respond. */
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
      // An idle server reports its position only on request.
      if (stream.isEmpty() && goal !== undefined) stream.confirm(applier.recorded(), true)
      const message = await stream.next(goal === undefined ? waitMs : goalPollMs)
      if (message === undefined)
        await client.query('SELECT 1') // detects a lost target while the source is idle
      else {
        if (message.kind === 'data') await applier.message(message.payload)
        else {
          if (stream.isEmpty()) await applier.settle()
          applier.reached(message.end)
          if (message.wantsReply) {
            // A server that shuts down waits for this reply.
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

/**
 * Checks that the slot still has every change after the recorded position. This database never confirms more than its
 * record has. So if the slot is ahead, this database was restored or copied. @throws MoveError
 */
async function checkSlot(there: Client, { name, position }: MoveState): Promise<void> {
  // Older versions have no column wal_status.
  const slot = `SELECT jsonb_build_object('confirmed', confirmed_flush_lsn, 'isLost', coalesce(to_jsonb(s)->>'wal_status', '') = 'lost')
    FROM pg_replication_slots s WHERE slot_name = ${escapeLiteral(name)}`
  const found = await queryValue<{ confirmed: string; isLost: boolean } | undefined>(there, slot)
  if (found === undefined) throw new MoveError(`the source has no slot ${name}: start again with a new database`)
  const { confirmed, isLost } = found
  if (isLost)
    throw new MoveError(
      `the source has removed WAL that the slot ${name} still needed: changes are missing. Raise max_slot_wal_keep_size on the source, run "espalier move cancel", and start again with a new database`,
    )
  if (parsePosition(confirmed) > parsePosition(position))
    throw new MoveError(
      `the slot ${name} is ahead of this database, which was restored or is a copy: changes are missing. Run "espalier move cancel", and start again with a new database`,
    )
}

/** Reports the lag of the target. A query reads the source's current position, which the stream does not contain. */
function startReports({ source, report }: Move, applier: Applier): { stop: () => void } {
  let isQuerying = false
  let currentAt = Date.now()
  const show = async () => {
    if (isQuerying) return
    isQuerying = true
    try {
      const current = await withSession(source, client =>
        queryValue<string>(client, 'SELECT pg_current_wal_flush_lsn()::text'),
      )
      const lag = parsePosition(current) - applier.position()
      const now = Date.now()
      if (lag <= 0n) currentAt = now
      const seconds =
        lag <= 0n ? 0 : Math.max(0, Math.round((now - Math.max(currentAt, applier.committedAt() ?? 0)) / 1000))
      report(`following: ${applier.changes()} changes applied, ${lag > 0n ? lag : 0n} bytes and ${seconds} s behind`)
    } catch {
      // The stream then fails too, and reports the reason.
    } finally {
      isQuerying = false
    }
  }
  const timer = setInterval(() => void show(), reportMs)
  return { stop: () => clearInterval(timer) }
}
