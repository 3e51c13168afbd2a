/**
 * PersistentVolumes of this runtime: each stands for one directory, which it names by a handle of its own. The handle is
 * given once, when the directory is made, and stays when the volume is bound to another claim.
 */
import type { Draft, PersistentVolume, PersistentVolumeClaim } from '../../../cluster/index.ts'

/** Whose volumes are directories here. */
export const driver = 'local.espalier.dev'
/** Keeps a volume's object until its directory is removed, where it is to be. */
export const reclaimFinalizer = 'external-provisioner.volume.kubernetes.io/finalizer'
const provisionedBy = 'pv.kubernetes.io/provisioned-by'
/** On a claim: it and its volume have found each other. From then on a volume that is not there is lost. */
export const bindCompleted = 'pv.kubernetes.io/bind-completed'

/** Two names, and nothing that leads elsewhere: a handle is part of a path. */
const handlePattern = /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?\/[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/

/** Where the directory of a volume is, relative to the volumes' own; undefined where it is not one of ours. */
export function handleOf({ spec }: Pick<PersistentVolume, 'spec'>): string | undefined {
  const { csi } = spec ?? {}
  return csi?.driver === driver && handlePattern.test(csi.volumeHandle) ? csi.volumeHandle : undefined
}

/** The handle of the directory that is made for a claim. */
export const newHandle = ({ metadata: { namespace = '', uid = '' } }: PersistentVolumeClaim): string =>
  `${namespace}/${uid}`

/** Beside a volume's directory: what is known of its database (embedded/rescue). */
export const recordFile = (directory: string): string => `${directory}.json`
/** A record that is being written, or that a crash left so. */
export const unfinishedRecord = (directory: string): string => `${directory}.json.new`

/** The name of the volume that is made for a claim. */
export const newVolumeName = ({ metadata }: PersistentVolumeClaim): string => `pvc-${metadata.uid}`

export const claimReference = ({ metadata: { namespace = '', name, uid = '' } }: PersistentVolumeClaim) => ({
  apiVersion: 'v1',
  kind: 'PersistentVolumeClaim',
  namespace,
  name,
  uid,
})

/** The volume that is made for a claim. */
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
