/** A suspension that has to wait for what needs Postgres running. */
import { expect, test } from 'vitest'
import { childNames, desiredHash, labels, visiblePhase } from '../../../crds/index.ts'
import { conditionOf } from '../../objects/conditions.ts'
import { emptyWorld, round, settings, type World } from '../../testing/plan-world.ts'

const hold = { reason: 'AwaitsBackup', message: 'the backup nightly is being taken' }

const settle = (world: World, rounds = 20) => {
  for (let count = 0; count < rounds; count++) round(world)
}
const databaseIn = ({ database }: World) => {
  if (database === undefined) throw new Error('the database is there')
  return database
}
const suspend = (world: World, suspended: boolean) => {
  const database = databaseIn(world)
  const metadata = { ...database.metadata, generation: (database.metadata.generation ?? 1) + 1 }
  world.database = { ...database, metadata, spec: { ...database.spec, suspended } }
}
const idOf = (world: World) => databaseIn(world).metadata.labels?.[labels.id] ?? ''
const podOf = (world: World) => world.objects.get(`Pod/${childNames.pod(idOf(world), 1)}`)
const progressing = (world: World) => conditionOf(databaseIn(world).status, 'Progressing')
const tasks = ({ tasks: all }: World) => [...all.values()].slice(1).map(task => [task.spec.name, task.status?.phase])

/** A database that serves, is to be suspended, and is needed. */
function held(): { world: World; pod: unknown } {
  const world = emptyWorld()
  settle(world)
  const pod = podOf(world)?.metadata.uid
  world.suspensionBlock = hold
  suspend(world, true)
  settle(world)
  return { world, pod }
}

test('a suspension waits for a backup and reports it, while the database serves, and is then done', () => {
  const { world, pod } = held()
  expect(podOf(world)?.metadata.uid).toBe(pod)
  expect(visiblePhase(databaseIn(world))).toBe('suspending')
  expect(progressing(world)).toMatchObject({ status: 'True', ...hold })
  expect(conditionOf(databaseIn(world).status, 'Ready')?.status).toBe('True')
  expect(tasks(world)).toEqual([['suspend-managed', 'running']])
  world.suspensionBlock = undefined
  settle(world)
  expect(podOf(world)).toBeUndefined()
  expect(databaseIn(world).status).toMatchObject({
    phase: 'suspended',
    appliedHash: desiredHash(databaseIn(world).spec),
  })
  expect(tasks(world)).toEqual([['suspend-managed', 'succeeded']])
})

test('a suspension is not withdrawn if a backup starts when Postgres is already stopping', () => {
  const world = emptyWorld()
  settle(world)
  suspend(world, true)
  while (podOf(world) !== undefined) round(world)
  world.suspensionBlock = hold
  settle(world)
  expect(podOf(world)).toBeUndefined()
  expect(databaseIn(world).status?.phase).toBe('suspended')
})

test('a suspension that waits is withdrawn by a resumption, and nothing is stopped', () => {
  const { world, pod } = held()
  suspend(world, false)
  settle(world)
  expect(podOf(world)?.metadata.uid).toBe(pod)
  expect(databaseIn(world).status?.phase).toBe('available')
  // What is asked now was in force all along: there is nothing to be done for it.
  expect(tasks(world)).toEqual([['suspend-managed', 'failed']])
})

test('a suspension that waits too long fails with the reason, and is done as soon as possible', () => {
  const { world, pod } = held()
  world.now += settings.deadlines.modifyingMs
  settle(world)
  expect(podOf(world)?.metadata.uid).toBe(pod)
  expect(progressing(world)).toMatchObject({ status: 'False', ...hold })
  expect(tasks(world)).toEqual([['suspend-managed', 'failed']])
  world.suspensionBlock = undefined
  settle(world)
  expect(podOf(world)).toBeUndefined()
  expect(databaseIn(world).status?.phase).toBe('suspended')
})
