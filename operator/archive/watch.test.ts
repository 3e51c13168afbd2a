/** The facts that the operator stores about archiving agents. */
import { expect, onTestFinished, test } from 'vitest'
import { childNames, labels, type ManagedDatabase } from '../../crds/index.ts'
import type { Caches } from '../caches.ts'
import type { InstallationKeys } from '../keys.ts'
import { archivesAnnotation } from '../member/pod/stateful-set.ts'
import { archivingStatus, createFakeArchive } from '../testing/fake-archive.ts'
import { databaseDraft, eventually, silent } from '../testing/installation.ts'
import { startArchiveWatch } from './watch.ts'

const usualId = '5e1d9a52-3f0e-4b43-9c0f-0a1b2c3d4e5f'
const now = 10_000_000

const databaseOf = (incarnation: number, id = usualId) => ({
  ...databaseDraft('one', { backup: { durable: true } }, id),
  metadata: { name: 'one', namespace: 'n', labels: { [labels.id]: id } },
  status: { incarnation, volume: { claim: childNames.claim(id, incarnation) } },
})

type Member = ReturnType<typeof databaseOf>
const pod = { metadata: { name: 'p', annotations: { [archivesAnnotation]: 'true' } }, status: { podIP: '127.0.0.1' } }

/** `checks`: how many times the agent's pod was read. */
function watchOf(database: () => Member, archive: ReturnType<typeof createFakeArchive>, clock = () => now) {
  let checks = 0
  const caches = {
    databases: { list: () => [database()] },
    pods: {
      get: () => {
        checks++
        return pod
      },
    },
  }
  const watch = startArchiveWatch({
    caches: caches as unknown as Pick<Caches, 'databases' | 'pods'>,
    keys: () => ({ authority: { accepted: '' } }) as unknown as InstallationKeys,
    ways: () => archive.ways,
    ...{ hasArchive: true, checkMs: 5, now: clock, logger: silent },
  })
  onTestFinished(() => watch.stop())
  const untilChecked = async () => {
    const before = checks
    await eventually(
      async () => checks,
      count => count > before + 3,
    )
  }
  const of = () => database() as unknown as ManagedDatabase
  return { untilChecked, position: () => watch.position(of()), finding: () => watch.finding(of())?.reason }
}

test('an answer from the volume before a restore is not recorded for the new volume', async () => {
  let database = databaseOf(1)
  const archive = createFakeArchive()
  archive.status = { ...archivingStatus, archived: '0/9000000', archivedAt: now }
  const { untilChecked, position } = watchOf(() => database, archive)
  await untilChecked()
  expect(position()?.incarnation).toBe(1)
  archive.down = { agent: 'it starts' }
  database = databaseOf(2)
  await untilChecked()
  expect(position()?.incarnation).toBe(1)
  archive.down = undefined
  archive.status = { ...archivingStatus, archived: '0/2000000', archivedAt: now }
  await untilChecked()
  expect(position()).toMatchObject({ incarnation: 2, archived: '0/2000000' })
})

test("a database with the name of a deleted one does not get the deleted one's state", async () => {
  let database = databaseOf(1)
  const archive = createFakeArchive()
  archive.status = { ...archivingStatus, archived: '0/9000000', archivedAt: now }
  const { untilChecked, position, finding } = watchOf(() => database, archive)
  await untilChecked()
  expect(finding()).toBe('Archiving')
  // Deleted and created again between two checks, with the same name. Both have their first incarnation.
  archive.down = { agent: 'it starts' }
  database = databaseOf(1, usualId.replace('5e', '6f'))
  expect([finding(), position()]).toEqual([undefined, undefined])
  await untilChecked()
  expect([finding(), position()]).toEqual(['Starting', undefined])
  archive.down = undefined
  archive.status = { ...archivingStatus, archived: '0/2000000', archivedAt: now + 10 }
  await untilChecked()
  expect(finding()).toBe('Archiving')
  expect(position()).toMatchObject({ archived: '0/2000000' })
})

test('an agent counts as starting in its first minute and as failing after it, even if it restarts repeatedly', async () => {
  let database = databaseOf(1)
  let at = now
  const archive = createFakeArchive()
  const failing = () => {
    archive.status = { ...archivingStatus, state: 'failing', archivedAt: null, now: at, startedAt: at - 1000 }
  }
  failing()
  const { untilChecked, finding } = watchOf(
    () => database,
    archive,
    () => at,
  )
  await untilChecked()
  expect(finding()).toBe('Starting')
  at += 60_000
  failing()
  await untilChecked()
  expect(finding()).toBe('Failing')
  database = databaseOf(2)
  await untilChecked()
  expect(finding()).toBe('Starting')
})
