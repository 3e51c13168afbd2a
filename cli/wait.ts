/**
 * Waits until an operation ends (`--wait`), and shows the newest message of the operation's task. A task is the API's
 * record of an operation. The API's stream of changes triggers the reads. If the API has no stream, the command uses
 * long polls.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { program } from '../server/program.ts'
import { escapeControls } from '../values/escape.ts'
import type { Client } from './api/client.ts'
import type { WaitOptions } from './arguments.ts'
import { ApiFailure, CommandFailure, TimedOut } from './errors.ts'
import { createProgress } from './progress.ts'
import type { Session } from './session.ts'

type Waited = { id: string; name: string; status: string }

/** Statuses during which an operation runs. */
const running = new Set([
  ...['creating', 'modifying', 'restoring', 'suspending', 'resuming', 'deleting'],
  ...['pending', 'running', 'queued'],
])
/** Statuses that make the command fail. */
const failed = new Set(['failed', 'degraded'])

/** The maximum seconds of one long poll. */
const pollSeconds = 5
/** The maximum pause between two reads while a stream is live, in seconds. The stream can miss a change. */
const quietSeconds = 10
/** The maximum wait until the stream opens, because a proxy may delay the stream. */
const openMs = 2_000
/** The minimum pause between two reads. */
const leastPauseMs = 250

type Wait<T> = {
  client: Client
  /** Reads the object. `wait`: the maximum seconds that the API may delay its response. */
  read: (wait: number) => Promise<T>
  /** The database that the object belongs to; absent if the object itself is a database. */
  databaseId?: string
  /** The object's state when the wait begins. */
  first: T
}

/** @throws CommandFailure if the operation failed, or did not end within the timeout */
export async function waitFor<T extends Waited>(
  { io, printer }: Session,
  { wait, timeout }: WaitOptions,
  { client, read, first, databaseId = first.id }: Wait<T>,
): Promise<T> {
  if (wait !== true) return first
  const deadline = Date.now() + timeout * 1000
  const progress = createProgress(io, printer.format === 'quiet')
  const following = client.follow(
    ({ kind, id, database_id = databaseId }) => id === first.id || (kind === 'task' && database_id === databaseId),
  )
  let object = first
  try {
    while (running.has(object.status)) {
      const remaining = Math.ceil((deadline - Date.now()) / 1000)
      const state = escapeControls(`${object.name} is ${object.status}`)
      if (remaining <= 0) {
        const still = escapeControls(`${object.name} is still ${object.status}`)
        throw new TimedOut(
          `${still} after ${timeout} s; the operation continues: run ${program} tasks to see its state`,
        )
      }
      const message = await newestMessage(client, object.id)
      progress.update(message === undefined ? state : `${state}: ${escapeControls(message)}`)
      await following.opened(Math.min(openMs, remaining * 1000))
      const pause = sleep(leastPauseMs)
      if (following.isLive) await following.next(Math.min(quietSeconds, remaining) * 1000)
      object = await read(following.isLive ? 0 : Math.min(pollSeconds, remaining))
      await pause
    }
  } finally {
    following.close()
    progress.end()
  }
  if (!failed.has(object.status)) return object
  const why = (await newestFailure(client, object.id)) ?? `run ${program} tasks to see the reason`
  throw new CommandFailure(escapeControls(`${object.name} is ${object.status}: ${why}`))
}

type Deletion = Pick<Wait<Waited>, 'client' | 'read' | 'databaseId'> & { name: string }

/** Waits until the API returns 404 for the object. A 404 of a proxy is an error. @throws CommandFailure */
export async function waitUntilDeleted(session: Session, options: WaitOptions, deletion: Deletion): Promise<void> {
  const { client, name, read, ...rest } = deletion
  if (options.wait !== true) return
  const absent = (error: unknown) => {
    if (error instanceof ApiFailure && error.status === 404 && error.isFromApi)
      return { id: '', name, status: 'deleted' }
    throw error
  }
  const first = await read(0).catch(absent)
  const last = await waitFor(session, options, { ...rest, client, first, read: wait => read(wait).catch(absent) })
  if (last.status !== 'deleted') throw new CommandFailure(escapeControls(`${name} is ${last.status}, and not deleted`))
}

async function newestMessage(client: Client, subjectId: string): Promise<string | undefined> {
  const [task] = await client.tasks({ subject_id: subjectId }, 1)
  return task?.messages.at(-1)?.text
}

async function newestFailure(client: Client, subjectId: string): Promise<string | undefined> {
  const [task] = await client.tasks({ subject_id: subjectId }, 1)
  return task?.error
}
