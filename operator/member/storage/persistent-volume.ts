/**
 * The PersistentVolume with a database's data, and the changes that the operator makes to it:
 *
 * - its labels;
 * - the reclaim policy `Retain` while the volume or its claim is being deleted; an annotation has the previous policy;
 * - its claimRef, which decides which claim can bind the volume;
 * - a second object for the same storage, if the first object is being deleted.
 *
 * The second object is necessary because a deletion cannot be undone: Kubernetes removes the first object when its
 * claim is deleted. `Retain` keeps the storage, but only the PersistentVolume has the location of the storage (driver,
 * handle, attributes, node). A claim can be bound only to a PersistentVolume. If the operator created the second object
 * after the deletion of the first, a crash in between would lose the location.
 */
import type { Draft, PersistentVolume } from '../../../cluster/index.ts'
import { labels, managedByEspalier } from '../../../crds/index.ts'
import { type Owner, withOwner } from '../../objects/ownership.ts'

/** Annotation of a volume that the operator set to `Retain`: its previous reclaim policy. */
export const reclaimPolicyAnnotation = 'espalier.dev/reclaim-policy'
const retain = 'Retain'
/** Kubernetes' own annotation: the driver that created a volume. */
const provisionedByAnnotation = 'pv.kubernetes.io/provisioned-by'
/** Kubernetes' annotations about a binding. A second object must not have them. */
const bindingAnnotations = ['pv.kubernetes.io/bound-by-controller', 'pv.kubernetes.io/bind-completed']

export type VolumeFacts = {
  name: string
  uid: string
  /** The volume is being deleted. Kubernetes removes the object as soon as no claim is bound to the volume. */
  isTerminating: boolean
  isRetained: boolean
  /** The reclaim policy before the operator set it to `Retain`. Absent if the operator did not set it. */
  policyBefore: string | undefined
  /** The claimRef, as `namespace/name`. */
  claim: string | undefined
  /** The uid in the claimRef, if set. */
  claimUid: string | undefined
  isBound: boolean
  /** The volume has the label of its owner. */
  isLabelled: boolean
  accessModes: string[]
  capacity: string | undefined
  storageClass: string
  /** A driver created the volume for a claim; no user created it by hand. */
  isProvisioned: boolean
}

export function volumeFacts(volume: PersistentVolume, owner: Owner | undefined): VolumeFacts {
  const { metadata, spec, status } = volume
  const { claimRef } = spec ?? {}
  return {
    name: metadata.name,
    uid: metadata.uid ?? '',
    isTerminating: metadata.deletionTimestamp !== undefined,
    isRetained: spec?.persistentVolumeReclaimPolicy === retain,
    policyBefore: metadata.annotations?.[reclaimPolicyAnnotation],
    claim: claimRef?.name === undefined ? undefined : `${claimRef.namespace}/${claimRef.name}`,
    claimUid: claimRef?.uid,
    isBound: status?.phase === 'Bound',
    isLabelled: owner !== undefined && isLabelled(owner, volume),
    accessModes: spec?.accessModes ?? [],
    capacity: spec?.capacity?.storage,
    storageClass: spec?.storageClassName ?? '',
    isProvisioned: metadata.annotations?.[provisionedByAnnotation] !== undefined,
  }
}

/** The cached part of a volume: enough for its facts and its labels. */
export function trimVolume(volume: PersistentVolume): PersistentVolume {
  const { managedFields: _, ...metadata } = volume.metadata
  const { accessModes, capacity, claimRef, nodeAffinity, persistentVolumeReclaimPolicy, storageClassName } =
    volume.spec ?? {}
  return {
    apiVersion: volume.apiVersion,
    kind: volume.kind,
    metadata,
    spec: {
      ...(accessModes && { accessModes }),
      ...(capacity && { capacity }),
      ...(claimRef && { claimRef }),
      ...(nodeAffinity && { nodeAffinity }),
      ...(persistentVolumeReclaimPolicy && { persistentVolumeReclaimPolicy }),
      ...(storageClassName && { storageClassName }),
    },
    ...(volume.status?.phase ? { status: { phase: volume.status.phase } } : {}),
  }
}

/** The desired claimRef of a volume. */
type Reservation = { namespace: string; name: string; uid: string }

/**
 * `reserve`: reserves the volume for its own claim again, and retains it until the claim is bound. `give-back`:
 * restores the previous reclaim policy. With `claimUid`, also sets this uid in the claimRef, so that Kubernetes treats
 * the volume as bound to the former claim.
 */
export type VolumeChange =
  | { to: 'label' | 'retain'; owner: Owner }
  | { to: 'unclaim' }
  | { to: 'reserve'; owner: Owner; claim: Reservation }
  | { to: 'give-back'; claimUid: string | undefined }

const labelled = (owner: Owner, volume: PersistentVolume): PersistentVolume => {
  const metadata = withOwner(owner, volume.metadata) ?? volume.metadata
  const volumeLabels = { [labels.managedBy]: managedByEspalier, [labels.database]: owner.id }
  return { ...volume, metadata: { ...metadata, labels: { ...metadata.labels, ...volumeLabels } } }
}

const isLabelled = (owner: Owner, { metadata }: PersistentVolume): boolean =>
  withOwner(owner, metadata) === undefined &&
  metadata.labels?.[labels.database] === owner.id &&
  metadata.labels[labels.managedBy] === managedByEspalier

/** Returns the volume after the change. Returns the same object if nothing changes. */
export function changedVolume(volume: PersistentVolume, change: VolumeChange): PersistentVolume {
  const { metadata, spec } = volume
  switch (change.to) {
    case 'label':
      return isLabelled(change.owner, volume) ? volume : labelled(change.owner, volume)
    case 'retain': {
      const { persistentVolumeReclaimPolicy: before } = spec ?? {}
      if (before === undefined || before === retain) return volume
      const annotations = { ...metadata.annotations, [reclaimPolicyAnnotation]: before }
      return labelled(change.owner, {
        ...volume,
        metadata: { ...metadata, annotations },
        spec: { ...spec, persistentVolumeReclaimPolicy: retain },
      })
    }
    case 'unclaim': {
      const { uid, resourceVersion: _, ...claimRef } = spec?.claimRef ?? {}
      return uid === undefined ? volume : { ...volume, spec: { ...spec, claimRef } }
    }
    case 'reserve': {
      const { claimRef } = spec ?? {}
      const { namespace, name, uid } = change.claim
      if (claimRef?.uid === uid && claimRef.name === name && claimRef.namespace === namespace) return volume
      const reserved = { apiVersion: 'v1', kind: 'PersistentVolumeClaim', namespace, name, uid }
      const retained = changedVolume(volume, { to: 'retain', owner: change.owner })
      return { ...retained, spec: { ...retained.spec, claimRef: reserved } }
    }
    case 'give-back': {
      const { [reclaimPolicyAnnotation]: before, ...annotations } = metadata.annotations ?? {}
      if (before === undefined) return volume
      const claimRef = spec?.claimRef && change.claimUid ? { uid: change.claimUid, ...spec.claimRef } : spec?.claimRef
      return {
        ...volume,
        metadata: { ...metadata, annotations },
        spec: { ...spec, ...(claimRef && { claimRef }), persistentVolumeReclaimPolicy: before },
      }
    }
  }
}

/** Returns the name of the second PersistentVolume for the same storage, from the uid of the volume's claim. */
export const copyName = (claimUid: string): string => `espalier-${claimUid}`

/** A second object for the same storage. It is retained, and reserved for a later claim with the same name. */
export function copiedVolume(volume: PersistentVolume, name: string, owner: Owner): Draft<'PersistentVolume'> {
  const { claimRef, ...spec } = volume.spec ?? {}
  const { uid: _, resourceVersion: __, ...reservation } = claimRef ?? {}
  const annotations = Object.entries(volume.metadata.annotations ?? {}).filter(
    ([annotation]) => !bindingAnnotations.includes(annotation),
  )
  const policyBefore = spec.persistentVolumeReclaimPolicy ?? retain
  const noted = policyBefore === retain ? [] : [[reclaimPolicyAnnotation, policyBefore] as const]
  const { metadata } = labelled(owner, {
    ...volume,
    metadata: {
      name,
      ...(volume.metadata.labels && { labels: volume.metadata.labels }),
      annotations: Object.fromEntries([...annotations, ...noted]),
    },
  })
  return {
    apiVersion: 'v1',
    kind: 'PersistentVolume',
    metadata,
    spec: { ...spec, ...(claimRef && { claimRef: reservation }), persistentVolumeReclaimPolicy: retain },
  }
}
