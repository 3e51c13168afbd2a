/**
 * How snapshots of volumes are taken and deleted, without any storage: in steps, as a snapshot controller does; only
 * when allowed; or never, for a reason of the storage.
 */
import type { Cluster, VolumeSnapshot } from '../../cluster/index.ts'

export type FakeSnapshots = {
  /** `held`: nothing is done. `cut`: cut, and never ready. `failing`: the storage reports that it cannot. */
  making: { mode: 'making' } | { mode: 'held' } | { mode: 'cut' } | { mode: 'failing'; message: string }
  /** While set, deleted objects remain. */
  deleting: 'deleting' | 'held'
  /** The handle of the source volume of each snapshot, by the snapshot's uid. */
  readonly images: Map<string, string>
  /** Takes the next step of a snapshot, if there is one. */
  step(snapshot: VolumeSnapshot): Promise<void>
}

const finalizer = 'snapshot.storage.kubernetes.io/volumesnapshot-bound-protection'
const cutAt = '2026-01-02T03:04:05Z'

/** `handleOfClaim`: the volume of a claim; undefined if it has none. */
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
