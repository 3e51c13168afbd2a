/** A restore that a user cancels by deleting its Restore. */
import { expect, test } from 'vitest'
import type { Cluster } from '../../cluster/index.ts'
import { annotations, isRestoreRequested, renderRequestedRestore } from '../../crds/index.ts'
import { at, useBackups } from '../testing/backups.ts'
import { isPhase, useInstallation } from '../testing/fixture.ts'
import { editSpec, eventually } from '../testing/installation.ts'

const it = useInstallation()
const { taken, dataOf, restarted } = useBackups(it)
const restore = () => it.cluster().get('Restore', at('cancelled-back'))

test('a pass of the database that began before the Restore was deleted does not create it again', async () => {
  let delayMs = 0
  const slow = (cluster: Cluster): Cluster => ({
    ...cluster,
    replaceStatus: async (kind, object) => {
      if (kind === 'ManagedDatabase') await new Promise(resolve => setTimeout(resolve, delayMs))
      return cluster.replaceStatus(kind, object)
    },
  })
  await restarted({ wrap: slow })
  await it.create('cancelled')
  ;(await dataOf('cancelled')).content = 'good'
  await taken('cancelled-1', 'cancelled')
  ;(await dataOf('cancelled')).content = 'bad'
  it.workload().volumes.unprovisioned = claim => (claim.spec?.dataSource === undefined ? undefined : 'not yet')
  await editSpec(it.cluster(), 'cancelled', spec => spec, {
    [annotations.restore]: renderRequestedRestore({ name: 'cancelled-back', backupName: 'cancelled-1' }),
  })
  const first = await eventually(restore, found => found?.status?.phase === 'running')

  delayMs = 300
  const allowlist = { rules: [{ cidr: '198.51.100.0/24' }] }
  await editSpec(it.cluster(), 'cancelled', spec => ({ ...spec, ipAllowlist: allowlist }))
  await new Promise(resolve => setTimeout(resolve, 60))
  await it.cluster().delete('Restore', at('cancelled-back'))
  expect(await eventually(restore, found => found?.metadata.uid !== first?.metadata.uid)).toBeUndefined()
  delayMs = 0
  it.workload().volumes.unprovisioned = () => undefined
  it.workload().regrow()

  const database = await it.when('cancelled', found => isPhase('available')(found) && !isRestoreRequested(found))
  expect([database?.status?.incarnation, await restore()]).toEqual([1, undefined])
  expect((await dataOf('cancelled')).content).toBe('bad')
  await restarted()
})
