/**
 * The PersistentVolume with a database's data, and the changes that the operator makes to it: its labels; the reclaim
 * policy `Retain` while its claim or itself is being deleted, with the previous policy in an annotation; releasing it
 * from its claim, for another to bind it; a second object for the same storage if this one is being deleted.
 *
 * A second object is necessary because a deletion cannot be undone: the object is deleted with its claim. `Retain` then
 * keeps the storage, but only the object contains its location (driver, handle, attributes, node), and no claim can be
 * bound without one. If the new object were created after the old one was deleted, a crash in between would lose that
 * location.
 */
import type { Draft, PersistentVolume } from '../../../cluster/index.ts'
import { labels, managedByEspalier } from '../../../crds/index.ts'
import { type Owner, withOwner } from '../../objects/ownership.ts'

/** Annotation of a volume that the operator set to `Retain`: its previous reclaim policy. */
export const reclaimPolicyAnnotation = 'espalier.dev/reclaim-policy'
const retain = 'Retain'
/** Kubernetes' own annotation: the driver that created a volume. */
const provisionedByAnnotation = 'pv.kubernetes.io/provisioned-by'
/** Kubernetes' own annotations about a binding, which a second object must not inherit. */
const bindingAnnotations = ['pv.kubernetes.io/bound-by-controller', 'pv.kubernetes.io/bind-completed']

export type VolumeFacts = {
  name: string
  uid: string
  /** It is being deleted: the object disappears as soon as no claim is bound to it. */
  isTerminating: boolean
  isRetained: boolean
  /** The policy before the operator set it to `Retain`; absent if it did not. */
  policyBefore: string | undefined
  /** The claim it is reserved for, `namespace/name`, and that claim's uid once it is bound. */
  claim: string | undefined
  claimUid: string | undefined
  isBound: boolean
  /** It has the label of its owner. */
  isLabelled: boolean
  accessModes: string[]
  capacity: string | undefined
  storageClass: string
  /** A driver created it for a claim; it was not created by hand. */
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
 * `reserve`: for its own claim again, and retained until the claim is bound. `give-back`: with its previous reclaim
 * policy, and as the volume of the former claim with this uid.
 */
export type VolumeChange =
  | { to: 'mark' | 'retain'; owner: Owner }
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

/** The volume after the change; the same object if nothing changes. */
export function changedVolume(volume: PersistentVolume, change: VolumeChange): PersistentVolume {
  const { metadata, spec } = volume
  switch (change.to) {
    case 'mark':
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

/** The name of the second object for the storage of the volume to which this claim was bound. */
export const copyName = (claimUid: string): string => `espalier-${claimUid}`

/** A second object for the same storage, retained, and reserved for the future claim with the old name. */
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
