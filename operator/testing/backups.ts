/** Helpers for tests of backups. Helpers for databases are in fixture.ts. */
import { afterEach, beforeAll } from 'vitest'
import { type Backup, childNames, labels } from '../../crds/index.ts'
import { conditionOf } from '../objects/conditions.ts'
import type { useInstallation } from './fixture.ts'
import { backupDraft, eventually, giveSnapshots, testConfiguration, testNamespace } from './installation.ts'

/** Timeouts that wait only for immediate results. */
export const shortTimeouts = {
  configuration: { backups: { ...testConfiguration.backups, errorMs: 0, cutMs: 1, readyMs: 1, servingMs: 1 } },
}

export const at = (name: string) => ({ namespace: testNamespace, name })
export const reasonOf = (backup: Backup | undefined) => conditionOf(backup?.status, 'Ready')?.reason

/** For an installation whose volumes can have snapshots. After each test, snapshots work normally again. */
export function useBackups(it: ReturnType<typeof useInstallation>) {
  beforeAll(() => giveSnapshots(it.cluster()))
  afterEach(() => {
    const { snapshots } = it.workload()
    snapshots.making = { mode: 'making' }
    snapshots.deleting = 'deleting'
    it.workload().resnapshot()
  })

  const get = (name: string) => it.cluster().get('Backup', at(name))
  const when = (name: string, isExpected: (backup: Backup) => boolean) =>
    eventually(
      () => get(name),
      found => found !== undefined && isExpected(found),
    )
  const request = async (name: string, database: string, spec: Partial<Backup['spec']> = {}) => {
    await it.cluster().create('Backup', backupDraft(name, { name: database, id: await it.idOf(database) }, spec))
  }
  const snapshotOf = async (name: string) => {
    const id = (await get(name))?.metadata.labels?.[labels.id] ?? ''
    return it.cluster().get('VolumeSnapshot', at(childNames.snapshot(id)))
  }
  return {
    get,
    when,
    request,
    snapshotOf,
    ended: (name: string) => when(name, ({ status }) => status?.finishedAt !== undefined),
    taken: async (name: string, database: string) => {
      await request(name, database)
      return when(name, ({ status }) => status?.phase === 'completed')
    },
    untilDeleted: (name: string) =>
      eventually(
        () => get(name),
        found => found === undefined,
      ),
    noSnapshot: (name: string) =>
      eventually(
        () => snapshotOf(name),
        found => found === undefined,
      ),
    dataOf: async (database: string) => {
      const claim = await it.child('PersistentVolumeClaim', database, 'claim')
      const data = it.workload().postgres.data.get(claim?.metadata.uid ?? '')
      if (data === undefined) throw new Error('there are no data')
      return data
    },
    restarted: async (options: Parameters<typeof it.startOperator>[0] = undefined) => {
      await it.stopOperator()
      await it.startOperator(options)
    },
  }
}
