/**
 * Deletes the WAL that no kept backup needs. WAL is needed from the newest durable backup that is older than the
 * recovery window. If there is none, it is needed from the oldest durable backup. Without a completed one, nothing is
 * deleted.
 */
import { keyOf, parseKey } from '../../../cluster/informer/index.ts'
import { type Controller, lowPriority, startController } from '../../../controller/index.ts'
import { type Backup, labels, type ManagedDatabase } from '../../../crds/index.ts'
import type { ArchiveWays } from '../../archive/ways.ts'
import type { ControllerOptions } from '../../controller-options.ts'
import { ownBackups } from '../observe.ts'
import { windowMs } from './retention.ts'

type ExpiryOptions = ControllerOptions & { archive: () => ArchiveWays | undefined }

const everyMs = 3600_000
/** The maximum number of delete requests for each volume in one pass. */
const mostPages = 100
const segmentBytes = 16n * 1024n * 1024n
const segmentsOfFile = 0x1_0000_0000n / segmentBytes

/** The name of the WAL file that holds a position (Postgres: XLogFileName), for initdb's default segments of 16 MB. */
export function walFileOf(lsn: string, timeline: number): string {
  const [high = '0', low = '0'] = lsn.split('/')
  const segment = ((BigInt(`0x${high}`) << 32n) | BigInt(`0x${low}`)) / segmentBytes
  const part = (value: bigint) => value.toString(16).toUpperCase().padStart(8, '0')
  return part(BigInt(timeline)) + part(segment / segmentsOfFile) + part(segment % segmentsOfFile)
}

/** The first WAL file that is kept, by volume number. */
export function firstRetained(
  backups: readonly Backup[],
  policy: ManagedDatabase['spec']['backup'],
  now: number,
): Map<number, string> {
  const completed = backups.flatMap(({ spec, status, metadata }) => {
    const { phase, incarnation, startLsn, timeline, finishedAt } = status ?? {}
    // A backup that is being deleted still counts, because its deletion may wait for a restore from it.
    if (spec.kind !== 'durable' || phase !== 'completed' || metadata.labels?.[labels.id] === undefined) return []
    if (incarnation === undefined || startLsn === undefined || timeline === undefined) return []
    return [{ incarnation, file: walFileOf(startLsn, timeline), at: Date.parse(finishedAt ?? '') }]
  })
  const begins = now - windowMs(policy)
  return new Map(
    [...Map.groupBy(completed, ({ incarnation }) => incarnation)].map(([incarnation, found]) => {
      // In WAL order, because a changed clock makes the times unreliable.
      const sorted = found.toSorted((left, right) => (left.file < right.file ? -1 : 1))
      const young = sorted.findIndex(({ at }) => at > begins)
      const oldest = young === -1 ? sorted.at(-1) : sorted[Math.max(0, young - 1)]
      return [incarnation, oldest?.file ?? '']
    }),
  )
}

export function startWalExpiry(options: ExpiryOptions): { stop(): Promise<void> } {
  const { caches, archive, clock, logger, metrics, now, signal } = options

  async function expire(database: ManagedDatabase, passSignal: AbortSignal): Promise<void> {
    const ways = archive()
    const id = database.metadata.labels?.[labels.id]
    // With a wrong clock, WAL inside the recovery window would be deleted.
    if (ways === undefined || id === undefined || clock.distrust() !== undefined) return
    for (const [incarnation, file] of firstRetained(ownBackups(caches, database), database.spec.backup, now())) {
      let deleted = 0
      for (let page = 0; page < mostPages; page++) {
        const answer = await ways.deleteWal({ id, incarnation }, file, passSignal)
        deleted += answer.deleted
        if (!answer.hasMore) break
      }
      if (deleted > 0) logger.info({ database: keyOf(database), incarnation, before: file, deleted }, 'deleted WAL')
    }
  }

  const controller: Controller = startController({
    name: 'wal-expiry',
    workers: 2,
    keys: () =>
      caches.databases
        .list()
        .filter(({ spec }) => spec.backup.durable)
        .map(keyOf),
    reconcile: async (key, passSignal) => {
      const database = caches.databases.get(parseKey(key))
      if (database === undefined || !database.spec.backup.durable) return undefined
      await expire(database, passSignal)
      return { requeueAfterMs: everyMs }
    },
    ...{ signal, logger, metrics },
  })
  const unsubscribe = caches.backups.onChange(({ object }) => {
    if (object.spec.kind === 'durable' && object.status?.phase === 'completed')
      controller.enqueue(`${object.metadata.namespace}/${object.spec.databaseName}`, { priority: lowPriority })
  })
  return {
    stop: async () => {
      unsubscribe()
      await controller.stop()
    },
  }
}
