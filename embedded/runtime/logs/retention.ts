/**
 * Keeps logs as long as their pod exists. Pods of a StatefulSet reuse their names, so their logs stay as long as the
 * set.
 */
import { readdirSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { Logger } from 'pino'
import type { Informer } from '../../../cluster/informer/index.ts'
import type { Layout } from '../directories.ts'

type RetentionOptions = {
  layout: Layout
  pods: Informer<'Pod'>
  statefulSets: Informer<'StatefulSet'>
  logger: Logger
}

/** Removes old logs, now and after each change. Returns a function that stops this. */
export function keepLogs({ layout, pods, statefulSets, logger }: RetentionOptions): () => void {
  const isNeeded = (namespace: string, pod: string): boolean => {
    const set = /^(.+)-\d+$/.exec(pod)?.[1]
    return (
      pods.get({ namespace, name: pod }) !== undefined ||
      (set !== undefined && statefulSets.get({ namespace, name: set }) !== undefined)
    )
  }
  const removeUnlessNeeded = (namespace: string, pod: string): void => {
    if (isNeeded(namespace, pod)) return
    rm(layout.log(namespace, pod), { recursive: true, force: true }).catch(error =>
      logger.warn({ err: error, namespace, pod }, 'old logs could not be removed'),
    )
  }
  const sweep = (namespace: string, matches: (pod: string) => boolean): void => {
    for (const pod of entriesOf(join(layout.logs, namespace))) if (matches(pod)) removeUnlessNeeded(namespace, pod)
  }

  for (const namespace of entriesOf(layout.logs)) sweep(namespace, () => true)
  const unsubscribes = [
    pods.onChange(({ type, object: { metadata } }) => {
      if (type === 'deleted') removeUnlessNeeded(metadata.namespace ?? '', metadata.name)
    }),
    statefulSets.onChange(({ type, object: { metadata } }) => {
      if (type === 'deleted') sweep(metadata.namespace ?? '', pod => pod.startsWith(`${metadata.name}-`))
    }),
  ]
  return () => {
    for (const unsubscribe of unsubscribes) unsubscribe()
  }
}

function entriesOf(directory: string): string[] {
  try {
    return readdirSync(directory)
  } catch {
    return []
  }
}
