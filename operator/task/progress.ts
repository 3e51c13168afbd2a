/**
 * What the Task of an operation says, from what its subject says: pure. A Task ends when, and only when, its subject has
 * settled; one whose operation is not the subject's any more ends with the reason why.
 */
import { labels, type Task, type TaskMessage } from '../../crds/index.ts'
import { durationText, preciseTime } from '../../values/time.ts'
import { completed } from '../objects/conditions.ts'
import type { Subject } from './subject.ts'

type TaskStatusValue = NonNullable<Task['status']>

/** Messages kept of one Task; the first stays, the oldest of the others go. */
const maximumMessages = 100

/** How far an operation is at each of its steps, in per cent. */
const progressAt: Record<string, number> = {
  Queued: 5,
  Copying: 5,
  Preparing: 10,
  Growing: 20,
  Stopping: 30,
  Starting: 30,
  Connecting: 60,
  PreparingRoles: 75,
  RotatingPasswords: 80,
  OpeningEndpoint: 90,
  Deleting: 50,
  Checkpointing: 30,
  Snapshotting: 60,
  Finishing: 90,
  Anchoring: 60,
  Switching: 75,
  Opening: 85,
}

const isFinal = (status: Task['status']): boolean => status?.phase === 'succeeded' || status?.phase === 'failed'

function withMessage(messages: readonly TaskMessage[], message: TaskMessage): TaskMessage[] {
  const all = [...messages, { ...message, text: message.text.slice(0, 2000) }]
  return all.length <= maximumMessages ? all : [...all.slice(0, 1), ...all.slice(all.length - maximumMessages + 1)]
}

/** The end of a Task; one that has ended never changes. */
export function finished(status: Task['status'], now: number, error?: string): TaskStatusValue {
  if (status !== undefined && isFinal(status)) return status
  const time = preciseTime(now)
  const startedAt = status?.messages?.[0]?.time
  const message: TaskMessage =
    error === undefined
      ? { time, level: 'info', text: 'done', progress: 100, step: completed }
      : { time, level: 'error', text: error }
  return {
    ...status,
    phase: error === undefined ? 'succeeded' : 'failed',
    updatedAt: time,
    finishedAt: time,
    ...(startedAt === undefined ? {} : { duration: durationText(Date.parse(startedAt), now) }),
    messages: withMessage(status?.messages ?? [], message),
    ...(error === undefined ? {} : { error: error.slice(0, 2000) }),
  }
}

/** The status of the Task whose operation the subject's status names. */
export function progressOf(status: Task['status'], { progressing, phase }: Subject, now: number): TaskStatusValue {
  if (status !== undefined && isFinal(status)) return status
  if (progressing?.status === 'False')
    return finished(status, now, progressing.reason === completed ? undefined : progressing.message)
  const step = progressing?.reason ?? 'Preparing'
  const messages = status?.messages ?? []
  if (status?.phase === 'running' && messages.at(-1)?.step === step) return status
  const before = Math.max(0, ...messages.map(message => message.progress ?? 0))
  const at = progressAt[step]
  // A step that comes again, as connecting does after the roles, takes nothing back.
  const progress = at === undefined ? undefined : Math.max(at, before)
  const time = preciseTime(now)
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
 * What becomes of a Task that its subject's status does not name. `subject` is what the cluster itself holds under its
 * name now.
 */
export function verdictOn(task: Task, subject: Subject | undefined, now: number): Verdict {
  const { kind, id } = task.spec.subject
  const isDeletion = task.spec.name === 'delete-managed' || task.spec.name === 'delete-branch'
  if (subject === undefined || subject.id !== id)
    return isDeletion ? over() : over(`the ${kind} was deleted before this was done`)
  const taskId = task.metadata.labels?.[labels.id]
  const { operation, isDeleting, askedTaskId, progressing, phase } = subject
  if (operation?.taskId === taskId) return { state: 'waiting' }
  if (isDeletion && phase === 'deleted') return over()
  if (isDeletion) return isDeleting ? { state: 'waiting' } : waitingSince(task, now)
  if (isDeleting) return over(`the ${kind} is being deleted`)
  if (askedTaskId() !== taskId) return over(`a later change to the ${kind} took its place`)
  if (operation !== undefined || !subject.isInForce()) return waitingSince(task, now)
  // It asked for nothing that was not so already.
  const isWell = progressing === undefined || progressing.reason === completed
  return isWell ? over() : over(progressing.message)
}

function waitingSince(task: Task, now: number): Verdict {
  const since = Date.parse(task.metadata.creationTimestamp ?? '')
  return now - since < takenUpWithinMs ? { state: 'waiting' } : over('the operation was never begun')
}
