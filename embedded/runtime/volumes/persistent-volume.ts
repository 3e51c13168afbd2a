/**
 * PersistentVolumes of this runtime. Each volume represents one directory, and its handle names the directory. The
 * handle is set once, when the directory is created. It stays when the volume is bound to another claim.
 */
import type { Draft, PersistentVolume, PersistentVolumeClaim } from '../../../cluster/index.ts'

/** The driver whose volumes are directories here. */
export const driver = 'local.espalier.dev'
/** Keeps a volume's object until its directory is removed, if it must be removed. */
export const reclaimFinalizer = 'external-provisioner.volume.kubernetes.io/finalizer'
const provisionedBy = 'pv.kubernetes.io/provisioned-by'
/** Set on a claim when it is bound to its volume. From then on a missing volume is lost. */
export const bindCompleted = 'pv.kubernetes.io/bind-completed'

/** Two names without path separators or dots, because a handle is part of a path. */
const handlePattern = /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?\/[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/

/** The path of a volume's directory, relative to the volumes' directory; undefined for another driver's volume. */
export function handleOf({ spec }: Pick<PersistentVolume, 'spec'>): string | undefined {
  const { csi } = spec ?? {}
  return csi?.driver === driver && handlePattern.test(csi.volumeHandle) ? csi.volumeHandle : undefined
}

/** The handle of a claim's new directory. */
export const newHandle = ({ metadata: { namespace = '', uid = '' } }: PersistentVolumeClaim): string =>
  `${namespace}/${uid}`

/** The record of a volume's database, next to the volume's directory (embedded/rescue). */
export const recordFile = (directory: string): string => `${directory}.json`
/** An incomplete record: it is being written, or a crash left it. */
export const unfinishedRecord = (directory: string): string => `${directory}.json.new`

/** The name of a claim's new volume. */
export const newVolumeName = ({ metadata }: PersistentVolumeClaim): string => `pvc-${metadata.uid}`

export const claimReference = ({ metadata: { namespace = '', name, uid = '' } }: PersistentVolumeClaim) => ({
  apiVersion: 'v1',
  kind: 'PersistentVolumeClaim',
  namespace,
  name,
  uid,
})

/** A claim's new volume. */
export const volumeDraft = (claim: PersistentVolumeClaim): Draft<'PersistentVolume'> => ({
  apiVersion: 'v1',
  kind: 'PersistentVolume',
  metadata: {
    name: newVolumeName(claim),
    annotations: { [provisionedBy]: driver },
    finalizers: [reclaimFinalizer],
  },
  spec: {
    capacity: { storage: claim.status?.capacity?.storage ?? claim.spec?.resources?.requests?.storage ?? '0' },
    accessModes: claim.spec?.accessModes ?? [],
    persistentVolumeReclaimPolicy: 'Delete',
    ...(claim.spec?.storageClassName && { storageClassName: claim.spec.storageClassName }),
    volumeMode: 'Filesystem',
    claimRef: claimReference(claim),
    csi: { driver, volumeHandle: newHandle(claim) },
  },
})
