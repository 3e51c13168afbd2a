/**
 * The VolumeSnapshot of a backup: its creation and its content. It contains everything that the status of its backup
 * records about the data, so that neither a crash in between nor recreating the backup without its status loses
 * anything.
 */
import { z } from 'zod'
import type { Draft, VolumeSnapshot } from '../../cluster/index.ts'
import { annotations, type Backup, childNames, labels, pgVersion, type Region } from '../../crds/index.ts'
import { sizeInBytes } from '../../values/quantity.ts'
import { childLabels, ownerAnnotations, ownerKeyOf, ownerKindOf, ownerOf } from '../objects/ownership.ts'
import type { CutOf, SnapshotFacts } from './observed.ts'

/** On a snapshot: its source, as JSON. */
const cutOfAnnotation = 'espalier.dev/cut-of'

const cutOf = z.object({
  systemIdentifier: z.string().max(32),
  timeline: z.int().min(1).optional(),
  startLsn: z.string().max(20).optional(),
  endLsn: z.string().max(20).optional(),
  pgVersion: pgVersion.optional(),
  region: z.string().max(63).optional(),
  claim: z.string().max(253),
  claimUid: z.string().max(64),
})

const readCutOf = (text: string | undefined): CutOf | undefined => {
  try {
    return cutOf.safeParse(JSON.parse(text ?? '')).data
  } catch {
    return undefined
  }
}

/** Without an owner reference, like all objects with data: no garbage collector deletes it. */
export function snapshotDraft(backup: Backup, id: string, region: Region, of: CutOf): Draft<'VolumeSnapshot'> {
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
        [cutOfAnnotation]: JSON.stringify(of),
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

/** The future use of a backup by a user or a schedule is unknown, whatever its annotations. */
const isSingleUse = ({ metadata, spec }: Backup): boolean =>
  spec.purpose === 'prebranch' && metadata.annotations?.[annotations.singleUse] === 'true'

/** The volume that a restore has stopped, for which Postgres was not queried. */
const isAtRest = ({ spec }: Backup, { endLsn }: CutOf): boolean => spec.purpose === 'prerestore' && endLsn === undefined

/** A recreated backup has another uid; its id and its key identify it. */
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
    isGoing: metadata.deletionTimestamp !== undefined,
    cutOf: readCutOf(metadata.annotations?.[cutOfAnnotation]),
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
  `the data of the backup ${backup} have become the volume of the claim ${claim}: there is nothing to restore from`
