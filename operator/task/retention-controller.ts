/**
 * Deletes ended Tasks by retention (`retention.ts`). No cache has them; they are only counted. The controller reads all
 * of them, page by page, when the operator starts and every hour. It reads a subject's Tasks when more have ended than
 * are kept. It deletes them one after the other, so that even many Tasks cause no burst.
 */
import { keyText, parseKey, sleep, systemClock } from '../../cluster/informer/index.ts'
import { lowPriority, startController } from '../../controller/index.ts'
import { isEnded, labels, type Task } from '../../crds/index.ts'
import type { ControllerOptions } from '../controller-options.ts'
import { isOutdated, isTooMany, surplusOf } from './retention.ts'
import { type SubjectSource, subjectWithTask } from './subject.ts'

type RetentionOptions = ControllerOptions & { sources: readonly SubjectSource[] }

const sweepMs = 3600_000
const sweepDeadlineMs = 1800_000
const pageSize = 500
/** The pause between two pages, so that a sweep does not keep the cluster busy. */
const pauseMs = 100
/** The maximum number of Tasks that one pass deletes. */
const mostDeleted = 2_000
/** The key for a sweep of all Tasks; any other key is a subject's. */
const everything = '*'

/** The key of a Task's subject. Undefined if the Task has no subject label. */
const subjectKeyOf = ({ metadata }: Task): string | undefined => {
  const name = metadata.labels?.[labels.subject]
  return name === undefined ? undefined : keyText({ namespace: metadata.namespace, name })
}

export function startRetention(options: RetentionOptions): { ended(task: Task): void; stop(): Promise<void> } {
  const { cluster, sources, now, clock, logger, metrics, signal } = options

  /**
   * The number of ended Tasks by subject, as far as known. A sweep may miss a Task that ends meanwhile; the next sweep
   * counts it.
   */
  let ended = new Map<string, number>()

  /**
   * Returns how many Tasks were deleted. Skips a Task that its subject still names, because it would be created again.
   */
  const deleteTasks = async (tasks: readonly Task[], ending: AbortSignal): Promise<number> => {
    let deleted = 0
    for (const { metadata } of tasks) {
      ending.throwIfAborted()
      if (subjectWithTask(sources, metadata) !== undefined) continue
      await cluster.delete('Task', metadata, { uid: metadata.uid })
      deleted++
    }
    return deleted
  }

  const trim = async (key: string, ending: AbortSignal) => {
    const { namespace, name } = parseKey(key)
    const { items } = await cluster.list('Task', { namespace, labels: { [labels.subject]: name } })
    const surplus = surplusOf(items)
    await deleteTasks(surplus.slice(0, mostDeleted), ending)
    ended.set(key, items.filter(isEnded).length - surplus.length)
    return surplus.length > mostDeleted ? { requeueAfterMs: pauseMs } : undefined
  }

  const sweep = async (ending: AbortSignal) => {
    const counted = new Map<string, number>()
    let remaining = mostDeleted
    let continueToken: string | undefined
    do {
      const page = await cluster.list('Task', { limit: pageSize, continueToken })
      const isTrusted = clock.distrust() === undefined
      const outdated = isTrusted ? page.items.filter(task => isOutdated(task, now())).slice(0, remaining) : []
      remaining -= await deleteTasks(outdated, ending)
      for (const task of page.items.filter(isEnded)) {
        const key = subjectKeyOf(task)
        if (key !== undefined) counted.set(key, (counted.get(key) ?? 0) + 1)
      }
      continueToken = page.continueToken
      if (continueToken !== undefined) await sleep(systemClock, pauseMs, ending)
      ending.throwIfAborted()
    } while (continueToken !== undefined)
    ended = counted
    for (const [key, count] of ended) if (isTooMany(count)) controller.enqueue(key, { priority: lowPriority })
    return { requeueAfterMs: sweepMs }
  }

  const controller = startController({
    name: 'task-retention',
    workers: 2,
    reconcile: (key, ending) => (key === everything ? sweep(ending) : trim(key, ending)),
    deadlineMs: sweepDeadlineMs,
    signal,
    logger,
    metrics,
  })
  controller.enqueue(everything)

  return {
    ended: task => {
      const key = subjectKeyOf(task)
      if (key === undefined) return
      const count = (ended.get(key) ?? 0) + 1
      ended.set(key, count)
      if (isTooMany(count)) controller.enqueue(key, { priority: lowPriority })
    },
    stop: () => controller.stop(),
  }
}
