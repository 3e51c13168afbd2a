/**
 * What the Task of an operation says, from what its database says: pure. A Task ends when, and only when, its subject has
 * settled; one whose operation is not the subject's any more ends with the reason why.
 */
import {
  askedBy,
  desiredHash,
  labels,
  type ManagedDatabase,
  readOperation,
  type Task,
  type TaskMessage,
} from '../../crds/index.ts'
import { timestamp } from '../../values/time.ts'
import { completed, conditionOf } from '../objects/conditions.ts'

type TaskStatusValue = NonNullable<Task['status']>

/** Messages kept of one Task; the first stays, the oldest of the others go. */
const maximumMessages = 100

/** How far an operation is at each of its steps, in per cent. */
const progressAt: Record<string, number> = {
  Preparing: 10,
  Growing: 20,
  Stopping: 30,
  Starting: 30,
  Connecting: 60,
  PreparingRoles: 75,
  OpeningEndpoint: 90,
  Deleting: 50,
}

const isFinal = (status: Task['status']): boolean => status?.phase === 'succeeded' || status?.phase === 'failed'

function withMessage(messages: readonly TaskMessage[], message: TaskMessage): TaskMessage[] {
  const all = [...messages, { ...message, text: message.text.slice(0, 2000) }]
  return all.length <= maximumMessages ? all : [...all.slice(0, 1), ...all.slice(all.length - maximumMessages + 1)]
}

/** The end of a Task; one that has ended never changes. */
export function finished(status: Task['status'], now: number, error?: string): TaskStatusValue {
  if (status !== undefined && isFinal(status)) return status
  const time = timestamp(now)
  const message: TaskMessage =
    error === undefined
      ? { time, level: 'info', text: 'done', progress: 100, step: completed }
      : { time, level: 'error', text: error }
  return {
    ...status,
    phase: error === undefined ? 'succeeded' : 'failed',
    updatedAt: time,
    finishedAt: time,
    messages: withMessage(status?.messages ?? [], message),
    ...(error === undefined ? {} : { error: error.slice(0, 2000) }),
  }
}

/** The status of the Task whose operation the database's status names. */
export function progressOf(status: Task['status'], database: ManagedDatabase, now: number): TaskStatusValue {
  if (status !== undefined && isFinal(status)) return status
  const progressing = conditionOf(database.status, 'Progressing')
  if (progressing?.status === 'False')
    return finished(status, now, progressing.reason === completed ? undefined : progressing.message)
  const step = progressing?.reason ?? 'Preparing'
  const messages = status?.messages ?? []
  if (status?.phase === 'running' && messages.at(-1)?.step === step) return status
  const before = Math.max(0, ...messages.map(message => message.progress ?? 0))
  const at = progressAt[step]
  // A step that comes again, as connecting does after the roles, takes nothing back.
  const progress = at === undefined ? undefined : Math.max(at, before)
  const time = timestamp(now)
  const phase = database.status?.phase
  return {
    ...status,
    phase: 'running',
    updatedAt: time,
    messages: withMessage(messages, {
      time,
      level: progress === undefined ? 'warning' : 'info',
      text: progressing?.message ?? 'the operation begins',
      step,
      ...(progress === undefined ? {} : { progress }),
      ...(phase === undefined ? {} : { status: phase }),
    }),
  }
}

/** A Task that nothing has come of: still waiting, or over. `error` absent: it was done. */
type Verdict = { state: 'waiting' } | { state: 'over'; error?: string }

const over = (error?: string): Verdict => (error === undefined ? { state: 'over' } : { state: 'over', error })

/** How long an operation may wait to be taken up, in ms. */
export const takenUpWithinMs = 10 * 60_000

/**
 * What becomes of a Task that its subject's status does not name. `database` is what the cluster itself holds under the
 * subject's name now.
 */
export function verdictOn(task: Task, database: ManagedDatabase | undefined, now: number): Verdict {
  const isDeletion = task.spec.name === 'delete-managed'
  const isGone = database === undefined || database.metadata.labels?.[labels.id] !== task.spec.subject.id
  if (isGone) return isDeletion ? over() : over('the database was deleted before this was done')
  const taskId = task.metadata.labels?.[labels.id]
  const { status, metadata } = database
  if (status?.operation?.taskId === taskId) return { state: 'waiting' }
  const isDeleting = metadata.deletionTimestamp !== undefined
  if (isDeletion) return isDeleting ? { state: 'waiting' } : waitingSince(task, now)
  if (isDeleting) return over('the database is being deleted')
  const asked = readOperation(database)
  if (asked?.taskId !== taskId) return over('a later change to the database took its place')
  if (status?.operation !== undefined || status?.appliedHash !== desiredHash(askedBy(database)))
    return waitingSince(task, now)
  // It asked for nothing that was not so already.
  const progressing = conditionOf(status, 'Progressing')
  const isWell = progressing === undefined || progressing.reason === completed
  return isWell ? over() : over(progressing.message)
}

function waitingSince(task: Task, now: number): Verdict {
  const since = Date.parse(task.metadata.creationTimestamp ?? '')
  return now - since < takenUpWithinMs ? { state: 'waiting' } : over('the operation was never begun')
}
