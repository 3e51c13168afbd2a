/**
 * Lets go of ended Tasks that have been kept long enough (`retention.ts`). They are in no cache, only counted: all of them are
 * read, page by page, when the operator starts and every hour, and those of a subject when one more ends than is kept. Each goes
 * by a request of its own, one after the other, so that a month of them, met at once, is no burst.
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
/** Between two pages: a sweep is never what a cluster is busy with. */
const pauseMs = 100
/** Most that one pass lets go. */
const goingAtOnce = 2_000
/** The key of a look at all Tasks; any other is a subject's. */
const everything = '*'

/** The key of a Task's subject; undefined where the Task lacks the label by which its subject's are listed. */
const subjectKeyOf = ({ metadata }: Task): string | undefined => {
  const name = metadata.labels?.[labels.subject]
  return name === undefined ? undefined : keyText({ namespace: metadata.namespace, name })
}

export function startRetention(options: RetentionOptions): { ended(task: Task): void; stop(): Promise<void> } {
  const { cluster, sources, now, clock, logger, metrics, signal } = options

  /** Of each subject, as far as is known: what ends during a sweep may be missed until the next one. */
  let ended = new Map<string, number>()

  /** How many were let go. One that its subject still names would only be made again. */
  const letGo = async (tasks: readonly Task[], ending: AbortSignal): Promise<number> => {
    let gone = 0
    for (const { metadata } of tasks) {
      ending.throwIfAborted()
      if (subjectWithTask(sources, metadata) !== undefined) continue
      await cluster.delete('Task', metadata, { uid: metadata.uid })
      gone++
    }
    return gone
  }

  const trim = async (key: string, ending: AbortSignal) => {
    const { namespace, name } = parseKey(key)
    const { items } = await cluster.list('Task', { namespace, labels: { [labels.subject]: name } })
    const surplus = surplusOf(items)
    await letGo(surplus.slice(0, goingAtOnce), ending)
    ended.set(key, items.filter(isEnded).length - surplus.length)
    return surplus.length > goingAtOnce ? { requeueAfterMs: pauseMs } : undefined
  }

  const sweep = async (ending: AbortSignal) => {
    const counted = new Map<string, number>()
    let left = goingAtOnce
    let continueToken: string | undefined
    do {
      const page = await cluster.list('Task', { limit: pageSize, continueToken })
      const isTrusted = clock.doubt() === undefined
      const outdated = isTrusted ? page.items.filter(task => isOutdated(task, now())).slice(0, left) : []
      left -= await letGo(outdated, ending)
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
