/** Queries the archiving agent and the archive about one durable backup, and deletes it there. */

import type { Backup, Branch, ManagedDatabase } from '../../crds/index.ts'
import { agentOf } from '../archive/watch.ts'
import type { AgentTarget, ArchiveLocation, ArchiveWays } from '../archive/ways.ts'
import type { Caches } from '../caches.ts'
import type { InstallationKeys } from '../keys.ts'
import { ArchiveUnreachableError } from '../objects/archive-unreachable.ts'
import type { DurableFacts } from './observed.ts'

type Context = { caches: Caches; keys: () => InstallationKeys; archive: () => ArchiveWays | undefined }

/** `target`: the address of the agent. */
type DurableObservation = { facts: DurableFacts; target: AgentTarget | undefined }

/** The agent is queried only for a running backup that has a path in the archive. `id`: the backup's id. */
export async function observeDurable(
  { caches, keys, archive }: Context,
  backup: Backup,
  id: string | undefined,
  source: ManagedDatabase | Branch | undefined,
  signal: AbortSignal,
): Promise<DurableObservation | undefined> {
  if (backup.spec.kind !== 'durable') return undefined
  const ways = archive()
  const database = source?.kind === 'ManagedDatabase' ? source : undefined
  const agent = database && agentOf(caches, database, keys())
  const target = agent?.target
  const isQueried = backup.status?.incarnation !== undefined && backup.status.finishedAt === undefined
  const facts = {
    hasArchive: ways !== undefined,
    pod: agent?.pod ?? 'absent',
    incarnation: database?.status?.incarnation,
    job:
      isQueried && agent?.pod === 'prepared' && ways && target && id !== undefined
        ? await jobOf(ways, target, id, signal)
        : ({ state: 'unknown' } as const),
  }
  return { facts, target }
}

async function jobOf(
  ways: ArchiveWays,
  target: AgentTarget,
  id: string,
  signal: AbortSignal,
): Promise<DurableFacts['job']> {
  try {
    return (await ways.job(target, id, signal)) ?? { state: 'unknown' }
  } catch (error) {
    signal.throwIfAborted()
    return { state: 'unanswered', message: error instanceof Error ? error.message : String(error) }
  }
}

/** The path of a backup's objects in the archive; undefined if no object was sent. */
const locationOf = ({ spec, status }: Backup): ArchiveLocation | undefined =>
  status?.incarnation === undefined ? undefined : { id: spec.databaseId, incarnation: status.incarnation }

/**
 * Cancels the job if the backup's agent is known, then deletes the backup's objects in the archive.
 * @throws ArchiveUnreachableError if the agent or the archive does not confirm that
 */
export async function deleteArchived(
  ways: ArchiveWays,
  { backup, id, target }: { backup: Backup; id: string | undefined; target: AgentTarget | undefined },
  signal: AbortSignal,
): Promise<void> {
  const location = locationOf(backup)
  if (location === undefined || id === undefined) return
  try {
    // A job that continues would write the backup's record again after its deletion.
    if (target !== undefined && backup.status?.phase !== 'completed') await ways.end(target, id, signal)
    await ways.deleteBackup(location, id, signal)
  } catch (error) {
    signal.throwIfAborted()
    throw new ArchiveUnreachableError(error instanceof Error ? error.message : String(error), { cause: error })
  }
}
