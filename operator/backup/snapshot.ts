/**
 * The VolumeSnapshot of a backup. Its annotations contain everything that the backup's status records about the data.
 * So nothing is lost after a crash, or if the Backup is recreated without its status.
 */
import { z } from 'zod'
import type { Draft, VolumeSnapshot } from '../../cluster/index.ts'
import { annotations, type Backup, childNames, labels, pgVersion, type Region } from '../../crds/index.ts'
import { sizeInBytes } from '../../values/quantity.ts'
import { childLabels, ownerAnnotations, ownerKeyOf, ownerKindOf, ownerOf } from '../objects/ownership.ts'
import type { SnapshotFacts, SnapshotSource } from './observed.ts'

/** Annotation of a snapshot: its source, as JSON. */
export const sourceAnnotation = 'espalier.dev/cut-of'

const snapshotSource = z.object({
  systemIdentifier: z.string().max(32),
  timeline: z.int().min(1).optional(),
  startLsn: z.string().max(20).optional(),
  endLsn: z.string().max(20).optional(),
  pgVersion: pgVersion.optional(),
  region: z.string().max(63).optional(),
  claim: z.string().max(253),
  claimUid: z.string().max(64),
})

const readSource = (text: string | undefined): SnapshotSource | undefined => {
  try {
    return snapshotSource.safeParse(JSON.parse(text ?? '')).data
  } catch {
    return undefined
  }
}

/** Like all objects with data it has no owner reference, so that the garbage collector never deletes it. */
export function snapshotDraft(backup: Backup, id: string, region: Region, of: SnapshotSource): Draft<'VolumeSnapshot'> {
  const { namespace = '' } = backup.metadata
  const owner = ownerOf({ kind: 'Backup', metadata: backup.metadata }, backup.spec.databaseId)
  const { snapshotClass } = region.spec
  return {
    apiVersion: 'snapshot.storage.k8s.io/v1',
    kind: 'VolumeSnapshot',
    metadata: {
      name: childNames.snapshot(id),
      namespace,
      labels: { ...childLabels(owner, 'snapshot'), [labels.id]: id },
      annotations: {
        ...ownerAnnotations(owner),
        [sourceAnnotation]: JSON.stringify(of),
        ...(isSingleUse(backup) ? { [annotations.singleUse]: 'true' } : {}),
        ...(isAtRest(backup, of) ? { [annotations.volumeAtRest]: 'true' } : {}),
      },
    },
    spec: {
      ...(snapshotClass === undefined ? {} : { volumeSnapshotClassName: snapshotClass.name }),
      source: { persistentVolumeClaimName: of.claim },
    },
  }
}

/** Only a prebranch backup is single-use. Other backups may be needed again, even if they have the annotation. */
const isSingleUse = ({ metadata, spec }: Backup): boolean =>
  spec.purpose === 'prebranch' && metadata.annotations?.[annotations.singleUse] === 'true'

/** Whether the snapshot is of a volume whose Postgres a restore has stopped. */
const isAtRest = ({ spec }: Backup, { endLsn }: SnapshotSource): boolean =>
  spec.purpose === 'prerestore' && endLsn === undefined

/** Compares id and key, because a recreated Backup has another uid. */
const isOf = ({ metadata }: Backup, id: string, snapshot: VolumeSnapshot): boolean =>
  ownerKindOf(snapshot) === 'Backup' &&
  ownerKeyOf(snapshot) === `${metadata.namespace}/${metadata.name}` &&
  snapshot.metadata.labels?.[labels.id] === id

export function snapshotFacts(backup: Backup, id: string, snapshot: VolumeSnapshot): SnapshotFacts {
  const { metadata, status } = snapshot
  return {
    name: metadata.name,
    uid: metadata.uid ?? '',
    isOwn: isOf(backup, id, snapshot),
    isDeleting: metadata.deletionTimestamp !== undefined,
    takenFrom: readSource(metadata.annotations?.[sourceAnnotation]),
    requestedAt: Date.parse(metadata.creationTimestamp ?? ''),
    cutAt: status?.creationTime === undefined ? undefined : Date.parse(status.creationTime),
    isReady: status?.readyToUse === true,
    becameVolume: status?.readyToUse === true ? undefined : metadata.annotations?.[annotations.becameVolume],
    bytes: sizeInBytes(status?.restoreSize),
    error: status?.readyToUse === true ? undefined : status?.error?.message,
  }
}

/** Why a backup can no longer be used. */
export const becameVolume = (backup: string, claim: string): string =>
  `the storage converted the snapshot of the backup ${backup} into the volume of the claim ${claim}: ` +
  'the backup can no longer be restored'
