/**
 * The PersistentVolume that holds a database's data, and the few changes that the operator makes to one: its marks; the
 * reclaim policy `Retain` while its claim or itself is being deleted, with the policy before in an annotation; its
 * claim let go of, for another to take it; a second object for the same storage where this one is going.
 *
 * A second object is created because nothing simpler keeps the data. A deletion cannot be taken back: the object goes with
 * its claim. `Retain` then keeps the storage, but only the object says where that is (driver, handle, attributes, node), and
 * no claim can be bound without one. To create the new object after the old one has gone would lose that if the operator
 * ended in between.
 */
import type { Draft, PersistentVolume } from '../../../cluster/index.ts'
import { labels, managedByEspalier } from '../../../crds/index.ts'
import { markedFor, type Owner } from '../../objects/ownership.ts'

/** On a volume that was set to `Retain` by us: the reclaim policy it had. */
export const reclaimPolicyAnnotation = 'espalier.dev/reclaim-policy'
const retain = 'Retain'
/** Kubernetes' own note of the driver that made a volume. */
const provisionedByAnnotation = 'pv.kubernetes.io/provisioned-by'
/** Kubernetes' own notes about a binding, which a second object must not inherit. */
const bindingAnnotations = ['pv.kubernetes.io/bound-by-controller', 'pv.kubernetes.io/bind-completed']

export type VolumeFacts = {
  name: string
  uid: string
  /** Somebody deletes it: the object goes as soon as no claim is bound to it. */
  isTerminating: boolean
  isRetained: boolean
  /** The policy it had before we set it to `Retain`; absent where we did not. */
  policyBefore: string | undefined
  /** The claim it is reserved for, `namespace/name`, and that claim's uid once it is bound. */
  claim: string | undefined
  claimUid: string | undefined
  isBound: boolean
  /** It says whose it is. */
  isMarked: boolean
  accessModes: string[]
  capacity: string | undefined
  storageClass: string
  /** A driver made it for a claim, rather than somebody by hand. */
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
    isMarked: owner !== undefined && isMarked(owner, volume),
    accessModes: spec?.accessModes ?? [],
    capacity: spec?.capacity?.storage,
    storageClass: spec?.storageClassName ?? '',
    isProvisioned: metadata.annotations?.[provisionedByAnnotation] !== undefined,
  }
}

/** What is kept of a volume in memory: enough for its facts and its marks. */
export function slimVolume(volume: PersistentVolume): PersistentVolume {
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

/** What a claimRef of a volume must say. */
type Reservation = { namespace: string; name: string; uid: string }

/** `reserve`: for its own claim again, and retained until the claim is bound. `give-back`: with its reclaim policy as it was, and as the volume of the claim of this uid that was. */
export type VolumeChange =
  | { to: 'mark' | 'retain'; owner: Owner }
  | { to: 'unclaim' }
  | { to: 'reserve'; owner: Owner; claim: Reservation }
  | { to: 'give-back'; claimUid: string | undefined }

const marked = (owner: Owner, volume: PersistentVolume): PersistentVolume => {
  const metadata = markedFor(owner, volume.metadata) ?? volume.metadata
  const marks = { [labels.managedBy]: managedByEspalier, [labels.database]: owner.id }
  return { ...volume, metadata: { ...metadata, labels: { ...metadata.labels, ...marks } } }
}

const isMarked = (owner: Owner, { metadata }: PersistentVolume): boolean =>
  markedFor(owner, metadata) === undefined &&
  metadata.labels?.[labels.database] === owner.id &&
  metadata.labels[labels.managedBy] === managedByEspalier

/** The volume after the change; the same object where it is so already. */
export function changedVolume(volume: PersistentVolume, change: VolumeChange): PersistentVolume {
  const { metadata, spec } = volume
  switch (change.to) {
    case 'mark':
      return isMarked(change.owner, volume) ? volume : marked(change.owner, volume)
    case 'retain': {
      const { persistentVolumeReclaimPolicy: before } = spec ?? {}
      if (before === undefined || before === retain) return volume
      const annotations = { ...metadata.annotations, [reclaimPolicyAnnotation]: before }
      return marked(change.owner, {
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

/** The name of the second object for the storage of the volume that this claim was bound to. */
export const copyName = (claimUid: string): string => `espalier-${claimUid}`

/** A second object for the same storage, retained, and reserved for the claim that is to come under the old name. */
export function copiedVolume(volume: PersistentVolume, name: string, owner: Owner): Draft<'PersistentVolume'> {
  const { claimRef, ...spec } = volume.spec ?? {}
  const { uid: _, resourceVersion: __, ...reservation } = claimRef ?? {}
  const annotations = Object.entries(volume.metadata.annotations ?? {}).filter(
    ([annotation]) => !bindingAnnotations.includes(annotation),
  )
  const policyBefore = spec.persistentVolumeReclaimPolicy ?? retain
  const noted = policyBefore === retain ? [] : [[reclaimPolicyAnnotation, policyBefore] as const]
  const { metadata } = marked(owner, {
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
