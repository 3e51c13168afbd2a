/**
 * Which operation runs, and when it has ended. It is in `status.operation` from its first pass until its Task is
 * finished; its outcome stands in the condition Progressing, written together with the phase it ends in. So a Task can
 * end no earlier than its subject settles, and neither a crash nor the next operation can take its outcome away.
 */
import { createHash } from 'node:crypto'
import {
  appliedDigests,
  canonicalJson,
  type Digests,
  desiredDigests,
  desiredHash,
  type ManagedDatabaseStatus,
  type OperationName,
  operationOfChange,
  readOperation,
  type Task,
} from '../../../crds/index.ts'
import { maskedRules } from '../children/route.ts'
import { sizeAnnotation, sizeText } from '../children/stateful-set.ts'
import type { Observed } from '../observed.ts'
import type { Assessment, Pending } from './assessment.ts'
import { completed, conditionOf, type Finding, no, timestamp, yes } from './conditions.ts'
import { comesIntoForce } from './size.ts'

export type StatusOperation = NonNullable<ManagedDatabaseStatus['operation']>

/** How long an operation may take before it is said to have failed, in ms. */
export type Deadlines = { creatingMs: number; modifyingMs: number; deletingMs: number }

export type OperationState = {
  operation: StatusOperation | undefined
  progressing: Finding
  /** What is in force now, by its hash; absent as long as nothing has settled. */
  appliedHash: string | undefined
}

export const isFinished = (task: Task | undefined): boolean =>
  task?.status?.phase === 'succeeded' || task?.status?.phase === 'failed'

/** Whether an operation has ended and only waits for its Task to say so. */
export const hasEnded = (status: ManagedDatabaseStatus | undefined): boolean =>
  status?.operation !== undefined && conditionOf(status, 'Progressing')?.status === 'False'

/** A UUID that is the same for the same text: version 8 (RFC 9562, section 5.8) over SHA-256. */
function derivedId(text: string): string {
  const hex = createHash('sha256').update(`espalier/operation/${text}`).digest('hex')
  const variant = ((Number.parseInt(hex.slice(16, 18), 16) & 0x3f) | 0x80).toString(16)
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-8${hex.slice(13, 16)}-${variant}${hex.slice(18, 20)}-${hex.slice(20, 32)}`
}

/**
 * What a change made without the API is called, by what differs from what was in force. Where no digests say what that
 * was, since an older operator wrote the hash, the children tell: template, replicas and route.
 */
function changeOf(observed: Observed): OperationName {
  const { spec, status } = observed.database
  if (status?.appliedHash === undefined) return 'create-managed'
  const after = desiredDigests(spec)
  return operationOfChange(appliedDigests(observed.database) ?? digestsOfChildren(observed, after), after)
}

/** The digests of what the children were made for; as asked where they do not tell. */
function digestsOfChildren({ database: { spec }, children, route }: Observed, asked: Digests): Digests {
  const { statefulSet } = children
  const size = statefulSet?.spec?.template.metadata?.annotations?.[sizeAnnotation]
  const rules = route?.route?.rules
  const differing = {
    size: size !== undefined && size !== sizeText(spec.size),
    suspended: statefulSet !== undefined && (statefulSet.spec?.replicas === 0) !== spec.suspended,
    cidrs: rules !== undefined && canonicalJson(rules) !== canonicalJson(maskedRules(spec)),
  }
  return {
    ...asked,
    ...Object.fromEntries(Object.entries(differing).flatMap(([name, is]) => (is ? [[name, '']] : []))),
  }
}

const deadlineOf = (name: OperationName, { creatingMs, modifyingMs, deletingMs }: Deadlines): number =>
  name === 'create-managed' ? creatingMs : name === 'delete-managed' ? deletingMs : modifyingMs

function begin(
  { taskId, name }: { taskId: string; name: OperationName },
  hash: string,
  now: number,
  deadlines: Deadlines,
): StatusOperation {
  return {
    taskId,
    name,
    hash,
    startedAt: timestamp(now),
    deadlineAt: timestamp(now + deadlineOf(name, deadlines)),
  }
}

/** The operation that makes the spec come into force: the API's, or one of our own for a change made without it. */
function beginUpdate(observed: Observed, hash: string, now: number, deadlines: Deadlines): StatusOperation {
  const { database } = observed
  const annotated = readOperation(database)
  if (annotated && annotated.name !== 'delete-managed' && !isFinished(observed.annotatedTask))
    return begin(annotated, hash, now, deadlines)
  const { uid, generation } = database.metadata
  const own = { taskId: derivedId(`${uid}/${hash}/${generation}`), name: changeOf(observed) }
  return begin(own, hash, now, deadlines)
}

/** The operation that brings a size into force whose own operation has failed. */
const ofGrownSize = ({ database: { metadata } }: Observed, hash: string) => ({
  taskId: derivedId(`${metadata.uid}/${hash}/${metadata.generation}/grown`),
  name: 'update-managed-size' as const,
})

/** The operation that tears a database down. */
export function deletion(observed: Observed, now: number, deadlines: Deadlines): StatusOperation {
  const { database } = observed
  const running = database.status?.operation
  if (running?.name === 'delete-managed') return running
  const annotated = readOperation(database)
  const own = { taskId: derivedId(`${database.metadata.uid}/delete`), name: 'delete-managed' as const }
  const asked = annotated?.name === 'delete-managed' ? annotated : own
  return begin(asked, desiredHash(database.spec), now, deadlines)
}

/** The state of operations after this pass. */
export function operationState(
  observed: Observed,
  { pending, fatal, wanted }: Assessment,
  now: number,
  deadlines: Deadlines,
): OperationState {
  const { status, spec } = observed.database
  const hash = desiredHash(spec)
  const appliedHash = status?.appliedHash
  const outcome = conditionOf(status, 'Progressing')
  const last = outcome?.status === 'False' ? no(outcome.reason, outcome.message) : no(completed, 'nothing to be done')

  if (hasEnded(status) && !isFinished(observed.task))
    return { operation: status?.operation, progressing: last, appliedHash }

  const current = hasEnded(status) ? undefined : status?.operation
  const fits = current !== undefined && current.hash === hash && current.name !== 'delete-managed'
  if (!fits && appliedHash === hash && comesIntoForce(observed, wanted.size)) {
    const operation = begin(ofGrownSize(observed, hash), hash, now, deadlines)
    return { operation, progressing: yes('Starting', 'the volume has grown: Postgres is restarted'), appliedHash }
  }
  if (!fits && appliedHash === hash) {
    return { operation: undefined, progressing: atRest(last, pending), appliedHash }
  }

  const operation = fits ? current : beginUpdate(observed, hash, now, deadlines)
  const settled = (finding: Finding): OperationState => ({ operation, progressing: finding, appliedHash: hash })
  if (fatal) return settled(no(fatal.reason, fatal.message))
  if (pending === undefined) return settled(no(completed, 'everything asked is in force'))
  if (pending.isHopeless) return settled(no(pending.reason, pending.message))
  if (now >= Date.parse(operation.deadlineAt))
    return settled(no('DeadlineExceeded', `not done by ${operation.deadlineAt}; still trying: ${pending.message}`))
  return { operation, progressing: yes(pending.reason, pending.message), appliedHash }
}

/** What failed and has come right since is no failure any more; what cannot go on says why. */
function atRest(last: Finding, pending: Pending | undefined): Finding {
  if (pending === undefined) return last.reason === completed ? last : no(completed, 'everything asked is in force')
  return pending.reason === pending.step ? last : no(pending.reason, pending.message)
}
