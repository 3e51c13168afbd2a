/**
 * Says of every object of a kind that this version does not run yet that it has failed, and why: what `kubectl apply` took
 * is not passed over in silence. Nothing else is done about it. A kind that comes to be run goes from the list below, and
 * its subject from task/controller.ts.
 */
// @ts-nocheck

import type { Kinds } from '../../cluster/index.ts'
import { type Informer, keyOf, parseKey } from '../../cluster/informer/index.ts'
import { type EventRecorder, startController } from '../../controller/index.ts'
import { type Condition, notAvailable } from '../../crds/index.ts'
import { timestamp } from '../../values/time.ts'
import type { ControllerOptions } from '../controller-options.ts'

type NotRunOptions = ControllerOptions & {
  events: EventRecorder
}

type NotRunKind = 'Branch' | 'Restore'
type Failed = { phase: 'failed'; observedGeneration?: number; conditions: Condition[] }

/** What is told of each. */
export const notRunMessages = {
  branch: 'this version of Espalier makes no branches: nothing comes of this, delete it',
  restore: 'this version of Espalier restores no backups: nothing comes of this, delete it',
} as const

export function startNotRunControllers(options: NotRunOptions): { stop(): Promise<void> } {
  const { caches } = options
  const cluster = caches.writeThrough(options.cluster)
  const controllers = [
    startNotRun(options, 'branch', caches.branches, (branch, failed) =>
      cluster.replaceStatus('Branch', { ...branch, status: { ...branch.status, ...failed } }),
    ),
    startNotRun(options, 'restore', caches.restores, (restore, failed) =>
      cluster.replaceStatus('Restore', { ...restore, status: { ...restore.status, ...failed } }),
    ),
  ]
  return {
    stop: async () => {
      await Promise.all(controllers.map(controller => controller.stop()))
    },
  }
}

function startNotRun<K extends NotRunKind>(
  { events, metrics, logger, now, signal }: NotRunOptions,
  name: keyof typeof notRunMessages,
  informer: Informer<K>,
  write: (object: Kinds[K], failed: Failed) => Promise<unknown>,
): { stop(): Promise<void> } {
  const message = notRunMessages[name]
  const reconcile = async (key: string) => {
    const object = informer.get(parseKey(key))
    // What has a phase was run by a version that runs its kind.
    if (object === undefined || object.status?.phase !== undefined) return undefined
    const { generation } = object.metadata
    const observed = generation === undefined ? {} : { observedGeneration: generation }
    const lastTransitionTime = timestamp(now())
    const condition = { type: 'Ready', status: 'False' as const, reason: notAvailable, message, lastTransitionTime }
    await write(object, { phase: 'failed', ...observed, conditions: [{ ...condition, ...observed }] })
    events.record(object, 'Warning', notAvailable, message)
    return undefined
  }
  const controller = startController({
    name: `not-run-${name}`,
    workers: 1,
    reconcile,
    keys: () => informer.list().map(keyOf),
    signal,
    logger,
    metrics,
  })
  const unfollow = informer.onChange(({ object }) => controller.enqueue(keyOf(object)))
  return {
    stop: async () => {
      unfollow()
      await controller.stop()
    },
  }
}
