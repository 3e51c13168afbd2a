/**
 * The volume claim of one member. The operator creates the claim once, and never from a template. So only the operator
 * decides when a database gets a volume. For its growth, see plan/growth.ts.
 */
import type { Draft, PersistentVolumeClaim } from '../../../cluster/index.ts'
import { childNames, type ObjectMeta, type Region, type SizeShape } from '../../../crds/index.ts'
import { canonicalQuantity, sizeInBytes } from '../../../values/quantity.ts'
import type { DataSource, SnapshotSource } from '../../objects/instance.ts'
import { childMetadata } from '../../objects/ownership.ts'
import { isUpToDate } from '../../objects/up-to-date.ts'
import { type Member, memberLabels } from '../member.ts'
import { selectedNodeAnnotation } from './copy-node.ts'
import type { VolumeFacts } from './persistent-volume.ts'

/**
 * Claim annotation: the system identifier of the data on its volume. With this annotation, the operator recognises the
 * data of a recreated database.
 */
export const systemIdentifierAnnotation = 'espalier.dev/system-identifier'

/** Claim annotation: the storage and class that the operator requested, without defaults that the cluster added. */
const requestAnnotation = 'espalier.dev/asked-storage'

/**
 * Claim annotation: the retained volume that the claim uses again. Postgres starts on its data unchanged; the volume is
 * never initialised.
 */
const adoptedAnnotation = 'espalier.dev/adopted-volume'

/**
 * Claim annotation: the restore source in the archive from which the volume was recovered. The claim's pods mount the
 * recovery certificate if its Secret exists.
 */
const recoveredAnnotation = 'espalier.dev/recovered-from'

export const isRecovered = (claim: Pick<PersistentVolumeClaim, 'metadata'> | undefined): boolean =>
  claim?.metadata.annotations?.[recoveredAnnotation] !== undefined

const recoveredFrom = (source: DataSource | undefined): Record<string, string> => {
  if (source?.kind !== 'archive') return {}
  const { id, incarnation, backup } = source.recover
  return { [recoveredAnnotation]: `${id}/${incarnation}/backups/${backup}` }
}

export const isAdopted = ({ metadata }: Pick<PersistentVolumeClaim, 'metadata'>): boolean =>
  metadata.annotations?.[adoptedAnnotation] !== undefined

const requestText = ({ storageSize }: SizeShape, { spec: { storageClass } }: Region): string =>
  `${canonicalQuantity(storageSize)}${storageClass === undefined ? '' : ` of ${storageClass}`}`

export const systemIdentifierOf = ({ metadata }: Pick<PersistentVolumeClaim, 'metadata'>): string | undefined =>
  metadata.annotations?.[systemIdentifierAnnotation]

function claimMetadata(member: Member, systemIdentifier: string | undefined): ObjectMeta {
  const { owner, incarnation, number } = member
  const metadata = childMetadata(owner, childNames.claim(owner.id, incarnation, number), 'postgres')
  const known: Record<string, string> =
    systemIdentifier === undefined ? {} : { [systemIdentifierAnnotation]: systemIdentifier }
  return {
    ...metadata,
    labels: { ...metadata.labels, ...memberLabels(member) },
    annotations: { ...metadata.annotations, ...known },
  }
}

/**
 * Returns the storage of the size, but at least the bytes of the source's volume, which may be larger than the size.
 */
function storageFor({ storageSize }: SizeShape, source: DataSource | undefined): string {
  const requested = canonicalQuantity(storageSize)
  return source !== undefined && source.bytes > (sizeInBytes(requested) ?? 0) ? String(source.bytes) : requested
}

/**
 * `systemIdentifier`: the data's system identifier, once known. `node`: the only node on which a copy of the source can
 * be.
 */
type ClaimContent = {
  systemIdentifier: string | undefined
  source?: DataSource | undefined
  node?: string | undefined
}

export function claimDraft(
  member: Member,
  shape: SizeShape,
  region: Region,
  { systemIdentifier, source, node }: ClaimContent,
): Draft<'PersistentVolumeClaim'> {
  const { storageClass } = region.spec
  const metadata = claimMetadata(member, systemIdentifier)
  return {
    apiVersion: 'v1',
    kind: 'PersistentVolumeClaim',
    metadata: {
      ...metadata,
      annotations: {
        ...metadata.annotations,
        [requestAnnotation]: requestText(shape, region),
        ...recoveredFrom(source),
        ...(node === undefined ? {} : { [selectedNodeAnnotation]: node }),
      },
    },
    spec: {
      accessModes: ['ReadWriteOncePod'],
      ...(storageClass === undefined ? {} : { storageClassName: storageClass }),
      resources: { requests: { storage: storageFor(shape, source) } },
      ...(source?.kind === 'snapshot' ? { dataSource: snapshotReference(source) } : {}),
    },
  }
}

const snapshotReference = ({ snapshot }: SnapshotSource) => ({
  apiGroup: 'snapshot.storage.k8s.io',
  kind: 'VolumeSnapshot',
  name: snapshot,
})

/**
 * Whether the claim was created with this request. A claim of an older operator has no annotation, so the function
 * compares the spec.
 */
export function hasRequest({ metadata, spec }: PersistentVolumeClaim, shape: SizeShape, region: Region): boolean {
  const requested = metadata.annotations?.[requestAnnotation]
  if (requested !== undefined) return requested === requestText(shape, region)
  const { storageClass = spec?.storageClassName } = region.spec
  const hasStorage = sizeInBytes(spec?.resources?.requests?.storage) === sizeInBytes(shape.storageSize)
  return hasStorage && spec?.storageClassName === storageClass
}

/**
 * The claim that replaces a volume's deleted claim. It requests the volume's own capacity, so that Kubernetes can bind
 * the volume.
 */
export function reboundClaimDraft(
  member: Member,
  systemIdentifier: string | undefined,
  { name, accessModes, capacity, storageClass, isProvisioned }: VolumeFacts,
): Draft<'PersistentVolumeClaim'> {
  return {
    apiVersion: 'v1',
    kind: 'PersistentVolumeClaim',
    metadata: claimMetadata(member, systemIdentifier),
    spec: {
      volumeName: name,
      accessModes,
      // Set even if empty. If the field were omitted, the cluster would set its default class, and the volume would not
      // bind. Exception: a volume that a driver created without a class. A claim with the empty class could never grow,
      // so the field is omitted.
      ...(storageClass === '' && isProvisioned ? {} : { storageClassName: storageClass }),
      resources: { requests: { storage: capacity ?? '0' } },
    },
  }
}

/** The claim for a volume that was retained when its database was deleted. */
export function adoptedClaimDraft(member: Member, volume: VolumeFacts): Draft<'PersistentVolumeClaim'> {
  const draft = reboundClaimDraft(member, undefined, volume)
  const annotations = { ...draft.metadata.annotations, [adoptedAnnotation]: volume.name }
  return { ...draft, metadata: { ...draft.metadata, annotations } }
}

/** Returns the claim with this owner's labels. Undefined if the claim already has them, or is being deleted. */
export function repairedClaim(
  claim: PersistentVolumeClaim,
  { metadata: { labels: objectLabels, annotations: wanted = {} } }: Draft<'PersistentVolumeClaim'>,
): PersistentVolumeClaim | undefined {
  if (claim.metadata.deletionTimestamp !== undefined) return undefined
  // This annotation is set only at the claim's creation.
  const { [requestAnnotation]: _, ...annotations } = wanted
  if (isUpToDate(claim.metadata, { labels: objectLabels, annotations })) return undefined
  const metadata = {
    ...claim.metadata,
    labels: { ...claim.metadata.labels, ...objectLabels },
    annotations: { ...claim.metadata.annotations, ...annotations },
  }
  return { ...claim, metadata }
}
