/**
 * The status of an operation's Task, from the status of its subject. Pure. A Task ends exactly when its subject is
 * reconciled. If the subject no longer names the operation, the Task ends with the reason.
 */
import { labels, type Task, type TaskMessage } from '../../crds/index.ts'
import { shortened } from '../../values/text.ts'
import { durationText, preciseTime } from '../../values/time.ts'
import { completed } from '../objects/conditions.ts'
import type { Subject } from './subject.ts'

type TaskStatusValue = NonNullable<Task['status']>

/**
 * The maximum number of messages of a Task. If there are more, the first message is kept, and the oldest of the others
 * are removed.
 */
const maximumMessages = 100

/** The progress of an operation at each of its steps, in per cent. */
const progressAt: Record<string, number> = {
  Queued: 5,
  Copying: 5,
  Preparing: 10,
  Growing: 20,
  Stopping: 30,
  Starting: 30,
  Recovering: 40,
  Connecting: 60,
  PreparingRoles: 75,
  Importing: 78,
  RotatingPasswords: 80,
  OpeningEndpoint: 90,
  Deleting: 50,
  Checkpointing: 30,
  Snapshotting: 60,
  StartingServices: 90,
  Finishing: 90,
  Anchoring: 60,
  Switching: 75,
  Opening: 85,
}

/** Steps whose messages contain the progress of each service, or of the import. */
const stepsInParts = ['StartingServices', 'Importing']
/** Its new message replaces the previous message, which has older progress. */
const counted = 'Importing'

const isFinal = (status: Task['status']): boolean => status?.phase === 'succeeded' || status?.phase === 'failed'

function withMessage(messages: readonly TaskMessage[], message: TaskMessage): TaskMessage[] {
  const all = [...messages, { ...message, text: shortened(message.text, 2000) }]
  return all.length <= maximumMessages ? all : [...all.slice(0, 1), ...all.slice(all.length - maximumMessages + 1)]
}

/** The end of a Task. A Task that has ended never changes. */
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
    ...(error === undefined ? {} : { error: shortened(error, 2000) }),
  }
}

/** The status of the Task whose operation the subject's status names. */
export function progressOf(status: Task['status'], { progressing, phase }: Subject, now: number): TaskStatusValue {
  if (status !== undefined && isFinal(status)) return status
  if (progressing?.status === 'False')
    return finished(status, now, progressing.reason === completed ? undefined : progressing.message)
  const step = progressing?.reason ?? 'Preparing'
  const messages = status?.messages ?? []
  const last = messages.at(-1)
  const isReported = last?.step === step && (!stepsInParts.includes(step) || last.text === progressing?.message)
  if (status?.phase === 'running' && isReported) return status
  const before = Math.max(0, ...messages.map(message => message.progress ?? 0))
  const at = progressAt[step]
  // If a step is repeated, such as connecting after the roles, the progress does not decrease.
  const progress = at === undefined ? undefined : Math.max(at, before)
  const time = preciseTime(now)
  return {
    ...status,
    phase: 'running',
    updatedAt: time,
    messages: withMessage(step === counted && last?.step === counted ? messages.slice(0, -1) : messages, {
      time,
      level: progress === undefined ? 'warning' : 'info',
      text: progressing?.message ?? 'the operation starts',
      step,
      ...(progress === undefined ? {} : { progress }),
      ...(phase === undefined ? {} : { status: phase }),
    }),
  }
}

/** The state of a Task without an operation: still waiting, or ended. `error` is absent after success. */
type Outcome = { state: 'waiting' } | { state: 'over'; error?: string }

const over = (error?: string): Outcome => (error === undefined ? { state: 'over' } : { state: 'over', error })

/** How long an operation may wait before it is started, in ms. */
export const startWithinMs = 10 * 60_000

/**
 * The state of a Task that its subject's status does not name. `subject`: the current object with that name, read from
 * the cluster.
 */
export function outcomeOf(task: Task, subject: Subject | undefined, now: number): Outcome {
  const { kind, id } = task.spec.subject
  const isDeletion = task.spec.name === 'delete-managed' || task.spec.name === 'delete-branch'
  if (subject === undefined || subject.id !== id)
    return isDeletion ? over() : over(`the ${kind} was deleted before the operation was complete`)
  const taskId = task.metadata.labels?.[labels.id]
  const { operation, isDeleting, requestedTaskId, progressing, phase } = subject
  if (operation?.taskId === taskId) return { state: 'waiting' }
  if (isDeletion && phase === 'deleted') return over()
  if (isDeletion) return isDeleting ? { state: 'waiting' } : waitingSince(task, now)
  if (isDeleting) return over(`the ${kind} is being deleted`)
  if (requestedTaskId() !== taskId) return over(`a later change to the ${kind} replaced it`)
  if (operation !== undefined || !subject.isInForce()) return waitingSince(task, now)
  // The operation requested nothing that was not already applied.
  const isWell = progressing === undefined || progressing.reason === completed
  return isWell ? over() : over(progressing.message)
}

function waitingSince(task: Task, now: number): Outcome {
  const since = Date.parse(task.metadata.creationTimestamp ?? '')
  return now - since < startWithinMs ? { state: 'waiting' } : over('the operation never started')
}
