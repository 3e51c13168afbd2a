/** Fakes of the archiving agents and of the archive. Sent objects are kept after the agents' jobs are gone. */
import type { ArchiveStatus, BackupJob } from '../archive/contract.ts'
import type { AgentTarget, ArchiveLocation, ArchiveWays } from '../archive/ways.ts'

const position = { position: '0/3000028', timeline: 1 }
const completed: BackupJob = {
  ...{ state: 'completed', start: position, end: { ...position, position: '0/3000120' } },
  ...{ endedAt: '2026-01-01T00:00:00Z', bytes: 4_000, storedBytes: 1_000 },
}

export const archivingStatus: ArchiveStatus = {
  ...{ state: 'archiving', since: 0, error: null, lastArchivedAt: 0, waitingFiles: 0, oldestWaitingSince: null },
  ...{ archived: '0/1', archivedAt: 0, written: '0/1', lagBytes: 0, timeline: 1 },
}

export function createFakeArchive() {
  const jobs = new Map<string, BackupJob>()
  /** Ids of backups with stored objects. */
  const stored = new Set<string>()
  const begun: string[] = []
  const deletedWal: (ArchiveLocation & { before: string })[] = []
  const deletedAll: ArchiveLocation[] = []
  const fake = {
    jobs,
    stored,
    begun,
    deletedWal,
    deletedAll,
    status: archivingStatus,
    /** The immediate result of a job. */
    making: completed as BackupJob,
    /** Why agents or archive do not answer. Undefined if both answer. */
    down: undefined as { agent?: string; archive?: string } | undefined,
    /** The agent no longer has its jobs. Sent objects are kept. */
    restartAgent: () => jobs.clear(),
    reset: () => {
      Object.assign(fake, { status: archivingStatus, making: completed, down: undefined })
    },
  }
  const agent = (_: AgentTarget) => {
    if (fake.down?.agent !== undefined) throw new Error(fake.down.agent)
  }
  const archive = () => {
    if (fake.down?.archive !== undefined) throw new Error(fake.down.archive)
  }
  const ways: ArchiveWays = {
    status: async target => {
      agent(target)
      return fake.status
    },
    begin: async (target, backupId) => {
      agent(target)
      const isBusy = [...jobs].some(([id, { state }]) => state === 'running' && id !== backupId)
      if (isBusy) return 'busy'
      if (jobs.has(backupId)) return 'begun'
      begun.push(backupId)
      stored.add(backupId)
      jobs.set(backupId, fake.making)
      return 'begun'
    },
    job: async (target, backupId) => {
      agent(target)
      return jobs.get(backupId)
    },
    end: async (target, backupId) => {
      agent(target)
      jobs.delete(backupId)
    },
    deleteBackup: async (_, backupId) => {
      archive()
      stored.delete(backupId)
    },
    deleteWal: async (location, before) => {
      archive()
      deletedWal.push({ ...location, before })
      return { deleted: 1, hasMore: false }
    },
    deleteAll: async location => {
      archive()
      deletedAll.push(location)
      return { deleted: 1, hasMore: false }
    },
  }
  return Object.assign(fake, { ways })
}
