/**
 * Previous volumes: volumes that a restore replaced. The database's status lists them. The operator deletes a volume 24
 * hours after the restore, if the restore and its prerestore backup are completed. A user can agree to an earlier
 * deletion. The volumes are found by their claims, so a Restore can be deleted at any time. Pure.
 */
import type { PersistentVolumeClaim } from '../../../cluster/index.ts'
import {
  annotations,
  type Backup,
  isOpenRestore,
  labels,
  mostPreviousListed,
  type PreviousVolume,
  type Restore,
} from '../../../crds/index.ts'
import { sizeInBytes } from '../../../values/quantity.ts'
import { timestamp } from '../../../values/time.ts'
import { type Finding, yes } from '../../objects/conditions.ts'
import { earliest } from '../../objects/earliest.ts'
import { isTakenFor, takenFor } from '../../objects/operator-backups.ts'
import type { Action } from '../actions.ts'
import type { Observed } from '../observed.ts'

type Facts = Pick<Observed, 'database' | 'backups' | 'previous' | 'clockDistrust'>

export type Previous = {
  volumes: PreviousVolume[] | undefined
  actions: Action[]
  finding: Finding | undefined
  requeueAt: number | undefined
}

/** The shortest time for which a previous volume is kept, unless a user agrees to its deletion. */
const retentionMs = 24 * 3600_000
/** The delay before the deletion of a volume is retried. */
const retryMs = 5_000

export function previousVolumes(observed: Facts, now: number): Previous {
  const { database, previous } = observed
  const { incarnation, volume, previous: recorded } = database.status ?? {}
  // Without a record of the current claim, the operator cannot tell which claims are previous.
  if (incarnation === undefined || volume === undefined)
    return { volumes: recorded, actions: [], finding: undefined, requeueAt: undefined }
  const found = previous.claims
    .filter(({ metadata }) => metadata.uid !== undefined && metadata.uid !== volume.uid)
    .flatMap(claim => entryOf(observed, claim))
    .toSorted((left, right) => left.entry.incarnation - right.entry.incarnation)
  const decided = found.map(({ entry, claim }) => decide(observed, entry, claim, now))
  const volumes = decided.map(({ entry }) => entry)
  return {
    volumes: volumes.length === 0 ? undefined : volumes.slice(-mostPreviousListed),
    actions: decided.flatMap(({ action }) => action ?? []),
    finding: findingOf(volumes),
    requeueAt: earliest(...decided.map(({ requeueAt }) => requeueAt)),
  }
}

const hasSwitched = ({ status }: Restore, serving: number | undefined): boolean =>
  status?.switchedAt !== undefined || (status?.incarnation !== undefined && status.incarnation === serving)

type Entry = { entry: PreviousVolume; claim: PersistentVolumeClaim }

/**
 * Decides whether a claim is a previous volume: by the status, by the Restore that replaced it, or by its incarnation.
 * Earlier releases kept no record. A claim with the incarnation of a Restore that never switched is not a previous
 * volume.
 */
function entryOf({ database, backups, previous: { restores } }: Facts, claim: PersistentVolumeClaim): Entry[] {
  const { incarnation: serving = 1, previous } = database.status ?? {}
  const { name, uid = '', labels: objectLabels } = claim.metadata
  const recorded = previous?.find(entry => entry.uid === uid)
  const restore = restores.find(({ metadata, status, ...rest }) =>
    recorded?.restoreUid === undefined
      ? status?.previous?.uid === uid && hasSwitched({ metadata, status, ...rest }, serving)
      : metadata.uid === recorded.restoreUid,
  )
  const number = Number(objectLabels?.[labels.incarnation])
  const isOfNone =
    !(number < serving) || restores.some(other => other.status?.incarnation === number && !hasSwitched(other, serving))
  if (recorded === undefined && restore === undefined && isOfNone) return []
  const { status, spec } = restore ?? {}
  const backup = recorded?.backup ?? (status?.anchorRefused === undefined ? status?.anchor : undefined)
  const present = backups.find(({ metadata }) => metadata.name === backup)
  const isTaken = present !== undefined && isTakenFor(present, takenFor(database, 'prerestore'))
  const entry: PreviousVolume = {
    incarnation: recorded?.incarnation ?? status?.previous?.incarnation ?? number,
    claim: name,
    uid,
    replacedAt: recorded?.replacedAt ?? status?.switchedAt,
    restore: recorded?.restore ?? restore?.metadata.name,
    restoreUid: recorded?.restoreUid ?? restore?.metadata.uid,
    restoredAt: recorded?.restoredAt ?? (status?.phase === 'completed' ? status.finishedAt : undefined),
    backup,
    backupUid: recorded?.backupUid ?? (isTaken ? present.metadata.uid : undefined),
    discard: recorded?.discard ?? spec?.discardPrevious,
    bytes: recorded?.bytes ?? sizeInBytes(claim.status?.capacity?.storage ?? claim.spec?.resources?.requests?.storage),
  }
  return [{ entry, claim }]
}

/** The uids of previous volumes whose deletion a user has agreed to. */
const agreedUids = ({ metadata }: Pick<Observed['database'], 'metadata'>): string[] =>
  (metadata.annotations?.[annotations.discardPrevious] ?? '').split(',').flatMap(text => text.trim() || [])

type Decided = { entry: PreviousVolume; action?: Action; requeueAt?: number }

function decide(
  { database, backups, previous: { restores }, clockDistrust }: Facts,
  entry: PreviousVolume,
  claim: PersistentVolumeClaim,
  now: number,
): Decided {
  const keep = (reason: string, message: string, until?: number): Decided => ({
    entry: { ...entry, reason, message, ...(until === undefined ? {} : { keptUntil: timestamp(until) }) },
    ...(until === undefined ? {} : { requeueAt: until }),
  })
  const { incarnation, claim: name, uid, restoreUid, restoredAt, discard } = entry
  const remove = (backup?: Backup): Decided => ({
    entry: { ...entry, reason: 'Deleting', message: 'its claim is being deleted' },
    action: { do: 'delete-previous', volume: { incarnation, claim: name, uid }, backup: backup?.metadata },
    requeueAt: now + retryMs,
  })
  if (claim.metadata.deletionTimestamp !== undefined) return keep('Deleting', 'its claim is being deleted')
  const restore = restores.find(({ metadata }) => metadata.uid === restoreUid)
  if (restore !== undefined && isOpenRestore(restore))
    return keep('RestoreUnderWay', `the restore ${restore.metadata.name} has not completed yet`)
  if (agreedUids(database).includes(uid)) return remove()
  if (restoredAt === undefined)
    return restore === undefined
      ? keep(unknownRestore, `no completed restore that replaced this volume is recorded; ${howToAgree(entry)}`)
      : keep('RestoreFailed', `the restore ${restore.metadata.name} failed; ${howToAgree(entry)}`)
  if (discard) return remove()
  const backup = backups.find(({ metadata }) => metadata.name === entry.backup && metadata.uid === entry.backupUid)
  if (backup?.status?.phase !== 'completed' || backup.metadata.deletionTimestamp !== undefined)
    return keep('NoBackup', `the volume has no completed prerestore backup; ${howToAgree(entry)}`)
  const until = Date.parse(entry.replacedAt ?? restoredAt) + retentionMs
  if (now < until) return keep('KeptForADay', 'it is kept for a day after the restore', until)
  return clockDistrust === undefined ? remove(backup) : keep('ClockDoubtful', `it is not deleted yet: ${clockDistrust}`)
}

const unknownRestore = 'RestoreUnknown'
/** Volumes whose deletion only a user decides. */
const awaitsAgreement = new Set([unknownRestore, 'RestoreFailed', 'NoBackup'])

const howToAgree = ({ uid }: PreviousVolume): string =>
  `to delete the volume, set the annotation ${annotations.discardPrevious}=${uid} on the ManagedDatabase`

const gigabytes = (bytes: number): string => `${(bytes / 1e9).toFixed(1)} GB`

function findingOf(volumes: readonly PreviousVolume[]): Finding | undefined {
  if (volumes.length === 0) return undefined
  const total = gigabytes(volumes.reduce((sum, { bytes = 0 }) => sum + bytes, 0))
  const counted = volumes.length === 1 ? '1 previous volume is' : `${volumes.length} previous volumes are`
  const awaiting = volumes.filter(({ reason = '' }) => awaitsAgreement.has(reason))
  const [first] = awaiting
  if (first === undefined) return yes('Kept', `${counted} kept (${total}): see status.previous`)
  return yes('AwaitsAgreement', `${counted} kept (${total}). Volume ${first.incarnation}: ${first.message}`)
}
