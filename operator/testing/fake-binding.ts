/**
 * Does what a cluster's controllers do with claims and volumes, without a disk. A claim gets its own volume, or the one
 * that it names. A volume whose claim is deleted is released. With the policy `Delete`, its data are deleted when no
 * pod mounts them.
 */
import type { Cluster, PersistentVolume, PersistentVolumeClaim } from '../../cluster/index.ts'

type FakeBinding = {
  /** Returns the volume that a claim is bound to. Undefined before that. */
  bind(claim: PersistentVolumeClaim): Promise<PersistentVolume | undefined>
  /** Updates a volume's phase, and reclaims the volume if it is released. */
  reclaim(name: string): Promise<void>
}

/** The key of a volume's data: the uid of the claim that it was created for. */
export const handleOf = ({ spec }: PersistentVolume): string => spec?.csi?.volumeHandle ?? ''

/** The claim that a volume is reserved for, `namespace/name`. */
export const reservationOf = ({ spec }: PersistentVolume): string =>
  `${spec?.claimRef?.namespace}/${spec?.claimRef?.name}`

const volumeFor = ({ metadata: { namespace = '', name, uid = '' }, spec }: PersistentVolumeClaim) => ({
  apiVersion: 'v1' as const,
  kind: 'PersistentVolume' as const,
  metadata: { name: `pvc-${uid}` },
  spec: {
    accessModes: spec?.accessModes ?? [],
    capacity: { storage: spec?.resources?.requests?.storage ?? '0' },
    ...(spec?.storageClassName && { storageClassName: spec.storageClassName }),
    persistentVolumeReclaimPolicy: 'Delete',
    claimRef: { apiVersion: 'v1', kind: 'PersistentVolumeClaim', namespace, name, uid },
    csi: { driver: 'fake', volumeHandle: uid },
  },
})

/** `isInUse`: whether a pod has mounted these data. */
export function createFakeBinding(
  cluster: Cluster,
  data: Pick<Map<string, unknown>, 'delete'>,
  isInUse: (handle: string) => boolean,
): FakeBinding {
  const bind = async (claim: PersistentVolumeClaim): Promise<PersistentVolume | undefined> => {
    const { uid = '', namespace, name, deletionTimestamp } = claim.metadata
    const { volumeName } = claim.spec ?? {}
    const draft = volumeFor(claim)
    const found = await cluster.get('PersistentVolume', { name: volumeName ?? draft.metadata.name })
    if (found === undefined && volumeName !== undefined) {
      if (claim.status?.phase === 'Bound')
        await cluster.replaceStatus('PersistentVolumeClaim', { ...claim, status: { ...claim.status, phase: 'Lost' } })
      return undefined
    }
    if (claim.status?.phase === 'Bound' && found?.status?.phase === 'Bound') return found
    if (deletionTimestamp !== undefined) return undefined
    if (found && (found.spec?.storageClassName ?? '') !== (claim.spec?.storageClassName ?? '')) return undefined
    const volume = found ?? (await cluster.create('PersistentVolume', draft))
    const { claimRef } = volume.spec ?? {}
    const isFree = claimRef?.uid === undefined && volume.metadata.deletionTimestamp === undefined
    if (reservationOf(volume) !== `${namespace}/${name}` || (claimRef?.uid !== uid && !isFree)) return undefined
    const taken = isFree
      ? await cluster.replace('PersistentVolume', {
          ...volume,
          spec: { ...volume.spec, claimRef: { ...claimRef, uid } },
        })
      : volume
    const bound = await cluster.replaceStatus('PersistentVolume', { ...taken, status: { phase: 'Bound' } })
    const named =
      volumeName === undefined
        ? await cluster.replace('PersistentVolumeClaim', {
            ...claim,
            spec: { ...claim.spec, volumeName: volume.metadata.name },
          })
        : claim
    const { storage = '0' } = volume.spec?.capacity ?? {}
    await cluster.replaceStatus('PersistentVolumeClaim', {
      ...named,
      status: { phase: 'Bound', capacity: { storage } },
    })
    return bound
  }

  const reclaim = async (name: string): Promise<void> => {
    const volume = await cluster.get('PersistentVolume', { name })
    const { claimRef, persistentVolumeReclaimPolicy: policy } = volume?.spec ?? {}
    if (volume === undefined || claimRef?.name === undefined) return
    const claim = await cluster.get('PersistentVolumeClaim', { namespace: claimRef.namespace, name: claimRef.name })
    if (claimRef.uid !== undefined && claim?.metadata.uid === claimRef.uid) {
      if (volume.status?.phase === 'Released') await bind(claim)
      return
    }
    const phase = claimRef.uid === undefined ? 'Available' : 'Released'
    if (phase === 'Available' && claim) await bind(claim)
    const isReclaimed = phase === 'Released' && policy === 'Delete' && !isInUse(handleOf(volume))
    if (isReclaimed) {
      const { items } = await cluster.list('PersistentVolume')
      const isShared = items.some(other => other.metadata.name !== name && handleOf(other) === handleOf(volume))
      if (!isShared) data.delete(handleOf(volume))
    }
    const current = await cluster.get('PersistentVolume', { name })
    if (current === undefined || current.spec?.claimRef?.uid !== claimRef.uid) return
    if (current.status?.phase !== phase)
      await cluster.replaceStatus('PersistentVolume', { ...current, status: { phase } })
    if (isReclaimed) await cluster.delete('PersistentVolume', { name }, { uid: volume.metadata.uid })
  }

  return { bind, reclaim }
}
