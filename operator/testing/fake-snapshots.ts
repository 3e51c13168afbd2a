/**
 * Does what a snapshot controller does, without storage: creates and deletes snapshots in steps, only when a test
 * permits it, or never because of the storage.
 */
import type { Cluster, VolumeSnapshot } from '../../cluster/index.ts'

export type FakeSnapshots = {
  /**
   * `held`: nothing is done. `cut`: the snapshot has its time, but never becomes ready. `failing`: the storage reports
   * an error.
   */
  making: { mode: 'making' } | { mode: 'held' } | { mode: 'cut' } | { mode: 'failing'; message: string }
  /** While `held`, deleted objects remain. */
  deleting: 'deleting' | 'held'
  /** The handle of each snapshot's source volume, by the snapshot's uid. */
  readonly images: Map<string, string>
  /** Takes a snapshot's next step, if there is one. */
  step(snapshot: VolumeSnapshot): Promise<void>
}

const finalizer = 'snapshot.storage.kubernetes.io/volumesnapshot-bound-protection'
const cutAt = '2026-01-02T03:04:05Z'

/** `handleOfClaim`: returns the volume of a claim; undefined if it has none. */
export function createFakeSnapshots(
  own: Cluster,
  handleOfClaim: (
    key: { namespace: string | undefined; name: string },
    snapshotUid: string,
  ) => Promise<string | undefined>,
): FakeSnapshots {
  const write = (snapshot: VolumeSnapshot, status: VolumeSnapshot['status']) =>
    own.replaceStatus('VolumeSnapshot', { ...snapshot, status: { ...snapshot.status, ...status } })
  const withFinalizers = (snapshot: VolumeSnapshot, finalizers: string[]) =>
    own.replace('VolumeSnapshot', { ...snapshot, metadata: { ...snapshot.metadata, finalizers } })

  const remove = async (snapshot: VolumeSnapshot) => {
    if (snapshots.deleting === 'held') return
    snapshots.images.delete(snapshot.metadata.uid ?? '')
    await withFinalizers(snapshot, [])
  }

  const takeSnapshot = async (snapshot: VolumeSnapshot) => {
    const { metadata, spec } = snapshot
    const name = spec.source.persistentVolumeClaimName
    const handle = await handleOfClaim({ namespace: metadata.namespace, name }, metadata.uid ?? '')
    if (handle === undefined) await write(snapshot, { readyToUse: false, error: { message: `no claim ${name}` } })
    else {
      snapshots.images.set(metadata.uid ?? '', handle)
      await write(snapshot, { creationTime: cutAt, readyToUse: false, restoreSize: '1Gi' })
    }
  }

  const make = async (snapshot: VolumeSnapshot) => {
    if (snapshot.status?.creationTime === undefined) await takeSnapshot(snapshot)
    else if (snapshots.making.mode === 'making') await write(snapshot, { readyToUse: true })
  }

  const snapshots: FakeSnapshots = {
    making: { mode: 'making' },
    deleting: 'deleting',
    images: new Map(),
    step: async snapshot => {
      const { metadata, status } = snapshot
      const { making } = snapshots
      if (metadata.deletionTimestamp !== undefined) return remove(snapshot)
      if (making.mode === 'held' || status?.readyToUse === true) return
      if (metadata.finalizers?.includes(finalizer) !== true) await withFinalizers(snapshot, [finalizer])
      else if (making.mode !== 'failing') await make(snapshot)
      else if (status?.error?.message !== making.message)
        await write(snapshot, { readyToUse: false, error: { message: making.message } })
    },
  }
  return snapshots
}
