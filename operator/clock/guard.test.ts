/** What the operator does while its clock is not trusted, and what it stores about the clock. */
import { afterEach, expect, test, vi } from 'vitest'
import { SimulatedClock } from '../../cluster/testing/simulated-clock.ts'
import { createMetrics } from '../../controller/index.ts'
import { labels, systemNamespace } from '../../crds/index.ts'
import { conditionOf } from '../objects/conditions.ts'
import { branchDraft } from '../testing/branches.ts'
import {
  backupDraft,
  databaseDraft,
  databaseWhen,
  eventually,
  giveSnapshots,
  openInstallation,
  silent,
  startTestOperator,
  testConfiguration,
  testNamespace,
} from '../testing/installation.ts'
import { clockRecordName, createClockGuard } from './guard.ts'
import { followServerClock, readMachine } from './readings.ts'

const dayMs = 24 * 3600_000
const id = '5e1d9a52-3f0e-4b43-9c0f-0a1b2c3d4e5f'
const opened: (() => Promise<void>)[] = []
afterEach(async () => {
  for (const close of opened.splice(0).reverse()) await close()
})
const open = async () => {
  const installation = await openInstallation()
  opened.push(() => installation.close())
  return installation
}
const recordKey = { namespace: systemNamespace, name: clockRecordName }

test('an untrusted clock deletes no old backup and expires no branch until it is trusted again', async () => {
  const installation = await open()
  const { cluster } = installation
  await giveSnapshots(cluster)
  /** How wrong the clock is, and how much time has passed. */
  let [wrong, passed] = [0, 0]
  const time = () => Date.now() + passed
  const backups = { ...testConfiguration.backups, cutMs: 365 * dayMs, readyMs: 365 * dayMs, errorMs: 365 * dayMs }
  const start = () =>
    startTestOperator(installation, {
      configuration: { backups },
      now: () => time() + wrong,
      machine: () => ({ wall: time() + wrong, elapsed: time(), boot: 'one' }),
    })
  let operator = await start()
  opened.push(() => operator.stop())
  await cluster.create('ManagedDatabase', databaseDraft('one', { backup: { durable: false, schedule: 'off' } }, id))
  await databaseWhen(cluster, 'one', found => found?.status?.phase === 'available')
  const list = async () => (await cluster.list('Backup', { namespace: testNamespace })).items
  for (const number of [1, 2]) {
    await cluster.create('Backup', backupDraft(`one-${number}`, { name: 'one', id }, { purpose: 'scheduled' }))
    await eventually(
      list,
      items => items.length === number && items.every(({ status }) => status?.finishedAt !== undefined),
    )
  }
  const expiresAt = new Date(Date.now() + dayMs).toISOString()
  await cluster.create('Branch', branchDraft('copy', { name: 'one', id }, { expiresAt }))
  const branch = () => cluster.get('Branch', { namespace: testNamespace, name: 'copy' })
  await eventually(branch, found => found?.status?.phase === 'available')

  await operator.stop()
  wrong = 100 * dayMs
  operator = await start()
  const region = () => cluster.get('Region', { name: 'here' })
  await eventually(region, found => conditionOf(found?.status, 'ClockTrusted')?.reason === 'ClockDoubtful')
  // The work that depends on the clock has run for both times.
  await cluster.create('Backup', backupDraft('one-3', { name: 'one', id }, { purpose: 'scheduled' }))
  await eventually(list, items => items.every(({ status }) => status?.finishedAt !== undefined) && items.length === 3)
  expect((await branch())?.spec.deletionRequestedAt).toBeUndefined()
  expect((await list()).map(({ metadata }) => metadata.name).toSorted()).toEqual(['one-1', 'one-2', 'one-3'])

  await operator.stop()
  passed = dayMs + 60_000
  operator = await start()
  await eventually(branch, found => found?.spec.deletionRequestedAt !== undefined || found === undefined)
  await eventually(list, items => items.filter(({ spec }) => spec.purpose === 'scheduled').length === 1)
  await eventually(region, found => conditionOf(found?.status, 'ClockTrusted') === undefined)
})

test('the guard trusts no clock before its first record, and trusts the clock after a deletion of the record', async () => {
  const { cluster } = await open()
  const timer = new SimulatedClock()
  const stopping = new AbortController()
  let wall = Date.now()
  const metrics = createMetrics()
  const read = () => ({ wall, elapsed: timer.now(), boot: 'one', server: undefined })
  const guard = createClockGuard({ cluster, read, logger: silent, metrics, timer })
  expect(guard.distrust()).toMatch(/has not been compared/)
  const onChange = vi.fn()
  guard.onChange(onChange)
  const running = guard.run(stopping.signal)
  const record = () => cluster.get('ConfigMap', recordKey)
  expect((await eventually(record, found => found !== undefined))?.metadata.labels).toHaveProperty(labels.managedBy)
  await eventually(
    () => onChange.mock.calls.length,
    count => count === 1,
  )
  expect(guard.distrust()).toBeUndefined()
  wall += 100 * dayMs
  expect(guard.distrust()).toMatch(/^the clock was set/)
  const figure = async () => (await metrics.registry.metrics()).match(/^espalier_clock_doubtful (\d)$/m)?.[1]
  wall += 60_000
  await timer.advance(60_000)
  await eventually(figure, value => value === '1')
  await eventually(record, found => JSON.parse(found?.data?.record ?? '{}').waitMs > 0)
  await cluster.delete('ConfigMap', recordKey)
  wall += 60_000
  await timer.advance(60_000)
  await eventually(figure, value => value === '0')
  expect([guard.distrust(), onChange.mock.calls.length]).toEqual([undefined, 3])
  stopping.abort()
  await running
})

test("readings contain the machine's clocks and the difference from the API server", async () => {
  const [first, second] = [readMachine(() => 7), readMachine(() => 8)]
  expect(first).toEqual({ wall: 7, elapsed: expect.any(Number), boot: second.boot })
  expect(second.elapsed).toBeGreaterThanOrEqual(first.elapsed)
  let elapsed = 5_000
  const server = followServerClock(() => elapsed)
  expect(server.now()).toBeUndefined()
  server.received(1_000_000)
  elapsed += 2_500
  expect(server.now()).toBe(1_002_500)
  elapsed += 11 * 60_000
  expect(server.now()).toBeUndefined()
})
