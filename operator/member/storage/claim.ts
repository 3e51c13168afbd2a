/**
 * The volume claim of one member. It is made once and never from a template, so that nothing but the operator
 * decides when a database gets a volume. How it grows: plan/growth.ts.
 */
import type { Draft, PersistentVolumeClaim } from '../../../cluster/index.ts'
import { childNames, type ObjectMeta, type Region, type SizeShape } from '../../../crds/index.ts'
import { bytesTold, canonicalQuantity } from '../../../values/quantity.ts'
import type { DataSource } from '../../objects/instance.ts'
import { childMetadata } from '../../objects/ownership.ts'
import { isUpToDate } from '../../objects/up-to-date.ts'
import { type Member, memberLabels } from '../member.ts'
import { selectedNodeAnnotation } from './copy-node.ts'
import type { VolumeFacts } from './persistent-volume.ts'

/** On a claim: the system identifier of the data on its volume, by which a database that was put back knows it. */
export const systemIdentifierAnnotation = 'espalier.dev/system-identifier'

/** On a claim: what storage it was made to ask for. What the cluster puts in of its own is not our asking. */
const askedAnnotation = 'espalier.dev/asked-storage'

/** On a claim: the retained volume that it took over. What stands there is started as it is, and never initialised. */
const adoptedAnnotation = 'espalier.dev/adopted-volume'

export const isAdopted = ({ metadata }: Pick<PersistentVolumeClaim, 'metadata'>): boolean =>
  metadata.annotations?.[adoptedAnnotation] !== undefined

const askedText = ({ storageSize }: SizeShape, { spec: { storageClass } }: Region): string =>
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

/** No smaller than what its data stood on, though a size may have shrunk or a volume grown by itself. */
function storageFor({ storageSize }: SizeShape, source: DataSource | undefined): string {
  const asked = canonicalQuantity(storageSize)
  return source !== undefined && source.bytes > (bytesTold(asked) ?? 0) ? String(source.bytes) : asked
}

/** `systemIdentifier`: of the data that stand on it, once that is known; `node`: the only one where a copy of the source can be. */
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
        [askedAnnotation]: askedText(shape, region),
        ...(node === undefined ? {} : { [selectedNodeAnnotation]: node }),
      },
    },
    spec: {
      accessModes: ['ReadWriteOncePod'],
      ...(storageClass === undefined ? {} : { storageClassName: storageClass }),
      resources: { requests: { storage: storageFor(shape, source) } },
      ...(source === undefined ? {} : { dataSource: snapshotReference(source) }),
    },
  }
}

const snapshotReference = ({ snapshot }: DataSource) => ({
  apiGroup: 'snapshot.storage.k8s.io',
  kind: 'VolumeSnapshot',
  name: snapshot,
})

/** Whether a claim was made to ask for this. One of an older operator's does not say so, but by what it asks. */
export function asksFor({ metadata, spec }: PersistentVolumeClaim, shape: SizeShape, region: Region): boolean {
  const asked = metadata.annotations?.[askedAnnotation]
  if (asked !== undefined) return asked === askedText(shape, region)
  const { storageClass = spec?.storageClassName } = region.spec
  const isLarge = bytesTold(spec?.resources?.requests?.storage) === bytesTold(shape.storageSize)
  return isLarge && spec?.storageClassName === storageClass
}

/** The claim that takes a volume over whose own claim is gone: of the volume's own size, so that it fits. */
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
      // Also where there is none: left out, a cluster puts in its default class, by which the volume does not fit.
      // Without a class a cluster puts its default in. Where a driver makes volumes of none there are no classes, and one
      // that asks for none by name could never grow.
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

/** The claim with our marks on it; undefined where it has them, or goes. */
export function repairedClaim(
  claim: PersistentVolumeClaim,
  { metadata: { labels: marks, annotations: wanted = {} } }: Draft<'PersistentVolumeClaim'>,
): PersistentVolumeClaim | undefined {
  if (claim.metadata.deletionTimestamp !== undefined) return undefined
  // Of the claim as it was made, which is not for later to say.
  const { [askedAnnotation]: _, ...annotations } = wanted
  if (isUpToDate(claim.metadata, { labels: marks, annotations })) return undefined
  const metadata = {
    ...claim.metadata,
    labels: { ...claim.metadata.labels, ...marks },
    annotations: { ...claim.metadata.annotations, ...annotations },
  }
  return { ...claim, metadata }
}
