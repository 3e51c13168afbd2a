/** A suspension that has to wait for something that needs Postgres to run. */
import { expect, test } from 'vitest'
import { childNames, desiredHash, labels, visiblePhase } from '../../../crds/index.ts'
import { conditionOf } from '../../objects/conditions.ts'
import { type ClusterState, emptyClusterState, round, settings } from '../../testing/cluster-state.ts'

const block = { reason: 'AwaitsBackup', message: 'the backup nightly is being taken' }

const reconcile = (clusterState: ClusterState, rounds = 20) => {
  for (let count = 0; count < rounds; count++) round(clusterState)
}
const databaseIn = ({ database }: ClusterState) => {
  if (database === undefined) throw new Error('the database is there')
  return database
}
const suspend = (clusterState: ClusterState, suspended: boolean) => {
  const database = databaseIn(clusterState)
  const metadata = { ...database.metadata, generation: (database.metadata.generation ?? 1) + 1 }
  clusterState.database = { ...database, metadata, spec: { ...database.spec, suspended } }
}
const idOf = (clusterState: ClusterState) => databaseIn(clusterState).metadata.labels?.[labels.id] ?? ''
const podOf = (clusterState: ClusterState) => clusterState.objects.get(`Pod/${childNames.pod(idOf(clusterState), 1)}`)
const progressing = (clusterState: ClusterState) => conditionOf(databaseIn(clusterState).status, 'Progressing')
const tasks = ({ tasks: all }: ClusterState) =>
  [...all.values()].slice(1).map(task => [task.spec.name, task.status?.phase])

/** A database that serves, is to be suspended, and is needed. */
function blocked(): { clusterState: ClusterState; pod: unknown } {
  const clusterState = emptyClusterState()
  reconcile(clusterState)
  const pod = podOf(clusterState)?.metadata.uid
  clusterState.suspensionBlock = block
  suspend(clusterState, true)
  reconcile(clusterState)
  return { clusterState, pod }
}

test('a suspension waits for a backup and reports it, while the database serves, and is then done', () => {
  const { clusterState, pod } = blocked()
  expect(podOf(clusterState)?.metadata.uid).toBe(pod)
  expect(visiblePhase(databaseIn(clusterState))).toBe('suspending')
  expect(progressing(clusterState)).toMatchObject({ status: 'True', ...block })
  expect(conditionOf(databaseIn(clusterState).status, 'Ready')?.status).toBe('True')
  expect(tasks(clusterState)).toEqual([['suspend-managed', 'running']])
  clusterState.suspensionBlock = undefined
  reconcile(clusterState)
  expect(podOf(clusterState)).toBeUndefined()
  expect(databaseIn(clusterState).status).toMatchObject({
    phase: 'suspended',
    appliedHash: desiredHash(databaseIn(clusterState).spec),
  })
  expect(tasks(clusterState)).toEqual([['suspend-managed', 'succeeded']])
})

test('a suspension is not withdrawn if a backup starts when Postgres is already stopping', () => {
  const clusterState = emptyClusterState()
  reconcile(clusterState)
  suspend(clusterState, true)
  while (podOf(clusterState) !== undefined) round(clusterState)
  clusterState.suspensionBlock = block
  reconcile(clusterState)
  expect(podOf(clusterState)).toBeUndefined()
  expect(databaseIn(clusterState).status?.phase).toBe('suspended')
})

test('a suspension that waits is withdrawn by a resumption, and nothing is stopped', () => {
  const { clusterState, pod } = blocked()
  suspend(clusterState, false)
  reconcile(clusterState)
  expect(podOf(clusterState)?.metadata.uid).toBe(pod)
  expect(databaseIn(clusterState).status?.phase).toBe('available')
  // The new request was applied all along: there is nothing to do.
  expect(tasks(clusterState)).toEqual([['suspend-managed', 'failed']])
})

test('a suspension that waits too long fails with the reason, and is done as soon as possible', () => {
  const { clusterState, pod } = blocked()
  clusterState.now += settings.deadlines.modifyingMs
  reconcile(clusterState)
  expect(podOf(clusterState)?.metadata.uid).toBe(pod)
  expect(progressing(clusterState)).toMatchObject({ status: 'False', ...block })
  expect(tasks(clusterState)).toEqual([['suspend-managed', 'failed']])
  clusterState.suspensionBlock = undefined
  reconcile(clusterState)
  expect(podOf(clusterState)).toBeUndefined()
  expect(databaseIn(clusterState).status?.phase).toBe('suspended')
})
