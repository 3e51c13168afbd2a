/**
 * The volume claim of one member. It is created once and never from a template, so that only the operator decides when
 * a database gets a volume. Its growth: plan/growth.ts.
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
 * Claim annotation: the system identifier of the data on its volume, by which a database that was put back recognises
 * it.
 */
export const systemIdentifierAnnotation = 'espalier.dev/system-identifier'

/**
 * Claim annotation: the storage and class that the operator requested. Defaults that the cluster adds are not part of
 * it.
 */
const requestAnnotation = 'espalier.dev/asked-storage'

/**
 * Claim annotation: the retained volume that it took over. The data there are started as they are, and never
 * initialised.
 */
const adoptedAnnotation = 'espalier.dev/adopted-volume'

/**
 * Claim annotation: the restore source in the archive from which its volume was recovered. Its pods mount the
 * certificate for that, if it exists.
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
 * At least as large as the volume that had the data before: the size may since be smaller, or that volume may have
 * grown automatically.
 */
function storageFor({ storageSize }: SizeShape, source: DataSource | undefined): string {
  const requested = canonicalQuantity(storageSize)
  return source !== undefined && source.bytes > (sizeInBytes(requested) ?? 0) ? String(source.bytes) : requested
}

/** `systemIdentifier`: of the data on it, once known; `node`: the only one where a copy of the source can be. */
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

/** Whether a claim was created with this request. An older operator's claim has no annotation, so its spec counts. */
export function hasRequest({ metadata, spec }: PersistentVolumeClaim, shape: SizeShape, region: Region): boolean {
  const requested = metadata.annotations?.[requestAnnotation]
  if (requested !== undefined) return requested === requestText(shape, region)
  const { storageClass = spec?.storageClassName } = region.spec
  const isLarge = sizeInBytes(spec?.resources?.requests?.storage) === sizeInBytes(shape.storageSize)
  return isLarge && spec?.storageClassName === storageClass
}

/** The claim that takes over a volume whose own claim is deleted: with the volume's own size, so that it fits. */
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
      // Set even if empty: if it is omitted, a cluster sets its default class, with which the volume does not bind.
      // Some drivers create volumes without any class; a claim that explicitly requests none could then never grow.
      ...(storageClass === '' && isProvisioned ? {} : { storageClassName: storageClass }),
      resources: { requests: { storage: capacity ?? '0' } },
    },
  }
}

/** The claim that takes over a volume that outlived its database. */
export function adoptedClaimDraft(member: Member, volume: VolumeFacts): Draft<'PersistentVolumeClaim'> {
  const draft = reboundClaimDraft(member, undefined, volume)
  const annotations = { ...draft.metadata.annotations, [adoptedAnnotation]: volume.name }
  return { ...draft, metadata: { ...draft.metadata, annotations } }
}

/** The claim with the labels of this owner; undefined if it has them, or is being deleted. */
export function repairedClaim(
  claim: PersistentVolumeClaim,
  { metadata: { labels: objectLabels, annotations: wanted = {} } }: Draft<'PersistentVolumeClaim'>,
): PersistentVolumeClaim | undefined {
  if (claim.metadata.deletionTimestamp !== undefined) return undefined
  // Fields set at creation only, which are not applied later.
  const { [requestAnnotation]: _, ...annotations } = wanted
  if (isUpToDate(claim.metadata, { labels: objectLabels, annotations })) return undefined
  const metadata = {
    ...claim.metadata,
    labels: { ...claim.metadata.labels, ...objectLabels },
    annotations: { ...claim.metadata.annotations, ...annotations },
  }
  return { ...claim, metadata }
}
