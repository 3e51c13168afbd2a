/**
 * The semantics of the port `Cluster` as tests. They specify the behaviour of kube-apiserver. Every adapter passes
 * them, so that code written for one adapter works with the other.
 */
import { afterAll, afterEach, beforeAll, describe } from 'vitest'
import type { Cluster, KindName } from '../index.ts'
import { describeApply } from './conformance/apply.ts'
import { describeDeletion } from './conformance/deletion.ts'
import { describeForegroundDeletion } from './conformance/foreground.ts'
import { describeGarbageCollection } from './conformance/garbage-collection.ts'
import { describeKinds } from './conformance/kinds.ts'
import { describeLists } from './conformance/lists.ts'
import { describeQuotas } from './conformance/quotas.ts'
import {
  type ConformanceTarget,
  eventually,
  type QuietWatch,
  type Suite,
  stored,
  uniqueName,
  watchQuietly,
} from './conformance/suite.ts'
import { describeValidation } from './conformance/validation.ts'
import { describeBinding, describeVolumes } from './conformance/volumes.ts'
import { describeWatches } from './conformance/watches.ts'
import { describeWrites } from './conformance/writes.ts'

export type { ConformanceTarget } from './conformance/suite.ts'

/** The groups that the object store alone can pass. */
export const objectGroups = [
  describeWrites,
  describeApply,
  describeValidation,
  describeDeletion,
  describeGarbageCollection,
  describeForegroundDeletion,
  describeVolumes,
  describeLists,
  describeWatches,
  describeKinds,
  describeQuotas,
]
/** The groups that need a cluster's storage. */
export const storageGroups = [describeVolumes, describeBinding]

/**
 * Registers the suite, or some of its groups, for one adapter. `open` returns a running cluster in which all of crds/
 * is installed.
 */
export function describeConformance(
  name: string,
  open: () => Promise<ConformanceTarget>,
  groups: readonly ((suite: Suite) => void)[] = [...objectGroups, describeBinding],
): void {
  describe(`${name} conformance`, () => {
    let opened: { target: ConformanceTarget; cluster: Cluster } | undefined
    let cleanup: { kind: KindName; name: string }[] = []
    let quiet: QuietWatch | undefined

    const now = (): { target: ConformanceTarget; cluster: Cluster } => {
      if (opened === undefined) throw new Error('the cluster is not open')
      return opened
    }
    beforeAll(async () => {
      const target = await open()
      opened = { target, cluster: await target.connect('conformance') }
      // The other tests run in the meantime. A store with a short history would no longer have the version of an early
      // bookmark.
      const isSlow = (target.bookmarkWithin ?? 0) >= 60_000
      if (isSlow && groups.includes(describeWatches)) quiet = await watchQuietly(opened.cluster)
    })
    afterEach(async () => {
      const { cluster } = now()
      const objects = cleanup
      cleanup = []
      for (const { kind, name: object } of objects) await cluster.delete(kind, { name: object })
    })
    afterAll(async () => {
      await quiet?.watch.stop()
      if (quiet) await opened?.cluster.delete('Namespace', { name: quiet.namespace })
      await opened?.target.close()
    })

    const suite: Suite = {
      target: () => now().target,
      cluster: () => now().cluster,
      namespace: async () => {
        const namespace = uniqueName('conformance-')
        await now().cluster.create('Namespace', { apiVersion: 'v1', kind: 'Namespace', metadata: { name: namespace } })
        cleanup.push({ kind: 'Namespace', name: namespace })
        const { ownConfigMap } = now().target
        if (ownConfigMap !== undefined)
          await eventually(() => stored(now().cluster, 'ConfigMap', { namespace, name: ownConfigMap }))
        return namespace
      },
      removeAfterwards: (kind, object) => void cleanup.push({ kind, name: object }),
      quiet: async () => {
        quiet ??= await watchQuietly(now().cluster)
        return quiet
      },
    }
    for (const group of groups) group(suite)
  })
}
