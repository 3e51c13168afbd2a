/** Durable backups from their request to their end, with fakes for agent and archive. */
import { afterEach, describe, expect, test } from 'vitest'
import { labels } from '../../crds/index.ts'
import { conditionOf } from '../objects/conditions.ts'
import { at, reasonOf, useBackups } from '../testing/backups.ts'
import { condition, hasCondition, isPhase, useInstallation } from '../testing/fixture.ts'
import { editSpec, eventually, testConfiguration, withArchive } from '../testing/installation.ts'

const shortTimeouts = {
  ...withArchive,
  backups: { ...testConfiguration.backups, servingMs: 300, durableStallMs: 1_000 },
}
const it = useInstallation({ configuration: shortTimeouts })
const backups = useBackups(it)
const archive = () => {
  const { archive } = it.installation()
  if (archive === undefined) throw new Error('there is no fake archive')
  return archive
}
afterEach(() => archive().reset())

const create = (name: string) => it.create(name, { backup: { durable: true } })
const request = (name: string, database: string) => backups.request(name, database, { kind: 'durable' })
const idOf = async (name: string) => (await backups.get(name))?.metadata.labels?.[labels.id] ?? ''
const stepIs = (reason: string) => (backup: NonNullable<Awaited<ReturnType<typeof backups.get>>>) =>
  conditionOf(backup.status, 'Progressing')?.reason === reason
const running = (more = {}) => ({
  state: 'running' as const,
  bytes: 10,
  estimate: 100,
  progressAt: Date.now() + 3600_000,
  ...more,
})

describe('a durable backup', () => {
  test('is completed with its path in the archive, and deleted there with its object', async () => {
    await create('whole')
    await request('whole-1', 'whole')
    const { status } = (await backups.ended('whole-1')) ?? {}
    expect(status).toMatchObject({
      ...{ phase: 'completed', incarnation: 1, startLsn: '0/3000028', endLsn: '0/3000120', timeline: 1 },
      ...{ sizeBytes: 4_000, pgVersion: '18', cutAt: '2026-01-01T00:00:00Z' },
    })
    expect(status?.snapshotName).toBeUndefined()
    const id = await idOf('whole-1')
    expect(archive().stored).toContain(id)
    const before = '000000010000000000000003'
    await eventually(() => archive().deletedWal.some(wal => wal.before === before && wal.incarnation === 1))
    archive().down = { archive: 'no route' }
    await it.cluster().delete('Backup', at('whole-1'))
    await backups.when('whole-1', stepIs('ArchiveUnreachable'))
    archive().down = undefined
    await backups.untilDeleted('whole-1')
    expect(archive().stored).not.toContain(id)
  })

  test('is started again if the agent has restarted, and reports its progress', async () => {
    await create('again')
    archive().making = running()
    await request('again-1', 'again')
    const found = await backups.when(
      'again-1',
      ({ status }) => conditionOf(status, 'Progressing')?.message.endsWith('10 %') === true,
    )
    expect(found?.status?.phase).toBe('running')
    const id = await idOf('again-1')
    archive().reset()
    archive().restartAgent()
    await backups.ended('again-1')
    expect(archive().begun.filter(begun => begun === id)).toHaveLength(2)
  }, 15_000)

  test('fails if the copy makes no progress, and leaves nothing in the archive', async () => {
    await create('stalled')
    archive().making = running({ progressAt: 0 })
    await request('stalled-1', 'stalled')
    const ended = await backups.ended('stalled-1')
    expect(reasonOf(ended)).toBe('Stalled')
    await backups.when('stalled-1', ({ status }) => status?.incarnation === undefined)
    const id = await idOf('stalled-1')
    expect([...archive().stored, ...archive().jobs.keys()]).not.toContain(id)
  }, 15_000)

  test('fails with the error of the agent, or if the agent does not answer', async () => {
    await create('failing')
    archive().making = { state: 'failed', error: 'the connection was lost' }
    await request('failing-1', 'failing')
    expect((await backups.ended('failing-1'))?.status?.error).toMatch(/the connection was lost/)
    archive().making = running()
    await request('failing-2', 'failing')
    await backups.when('failing-2', ({ status }) => status?.phase === 'running')
    archive().down = { agent: 'connection refused' }
    expect((await backups.ended('failing-2'))?.status?.error).toMatch(/agent .* connection refused/)
  }, 20_000)

  test.each([
    ['without the durable tier', false, 'DurableTierOff'],
    ['before the restart from which on it archives', true, 'NotArchiving'],
  ])('is refused %s', async (_, enabled, reason) => {
    const name = enabled ? 'enabled' : 'plain'
    await it.create(name)
    if (enabled) {
      await editSpec(it.cluster(), name, spec => ({ ...spec, backup: { durable: true } }))
      await it.when(name, hasCondition('Archiving', 'RestartPending'))
    }
    await request(`${name}-1`, name)
    expect(reasonOf(await backups.ended(`${name}-1`))).toBe(reason)
    expect(archive().begun).not.toContain(await idOf(`${name}-1`))
  })

  test('does not wait for a hot backup, nor a hot one for it; a second durable one waits', async () => {
    await create('queue')
    archive().making = running()
    await request('queue-1', 'queue')
    await backups.when('queue-1', ({ status }) => status?.phase === 'running')
    await request('queue-2', 'queue')
    await backups.taken('queue-3', 'queue')
    await backups.when('queue-2', stepIs('Queued'))
    archive().reset()
    await it.cluster().delete('Backup', at('queue-1'))
    await backups.untilDeleted('queue-1')
    expect((await backups.ended('queue-2'))?.status?.phase).toBe('completed')
  }, 15_000)

  test('is failed by the deletion of its database, which deletes it', async () => {
    await create('deleted')
    archive().making = running()
    await request('deleted-1', 'deleted')
    await backups.when('deleted-1', ({ status }) => status?.phase === 'running')
    const id = await idOf('deleted-1')
    await it.cluster().delete('ManagedDatabase', at('deleted'))
    await it.untilDeleted('deleted')
    expect(await backups.get('deleted-1')).toBeUndefined()
    expect(archive().stored).not.toContain(id)
  }, 15_000)

  test('delays a suspension, and is completed before it', async () => {
    await create('paused')
    archive().making = running()
    await request('paused-1', 'paused')
    await backups.when('paused-1', ({ status }) => status?.phase === 'running')
    await editSpec(it.cluster(), 'paused', spec => ({ ...spec, suspended: true }))
    await it.when('paused', found => condition(found, 'Progressing')?.reason === 'AwaitsBackup')
    archive().reset()
    archive().restartAgent()
    expect((await backups.ended('paused-1'))?.status?.phase).toBe('completed')
    await it.when('paused', isPhase('suspended'))
    await it.when('paused', hasCondition('Archiving', 'Suspended'))
  }, 15_000)
})

describe('Archiving', () => {
  test('is true while everything is archived, reports a conflict, and is absent without the durable tier', async () => {
    await create('state')
    await it.when('state', hasCondition('Archiving', 'Archiving'))
    const position = { incarnation: 1, archived: '0/1', archivedAt: '1970-01-01T00:00:00Z', timeline: 1 }
    expect((await it.when('state', found => found.status?.archive !== undefined)).status?.archive).toEqual(position)
    const error = { code: 'conflict', message: 'other content under 000000010000000000000003' }
    archive().status = { ...archive().status, state: 'conflict', error }
    const found = await it.when('state', hasCondition('Archiving', 'Conflict'))
    expect(condition(found, 'Archiving')).toMatchObject({
      status: 'False',
      message: expect.stringMatching(/other content/),
    })
    archive().reset()
    await it.when('state', hasCondition('Archiving', 'Archiving'))
    await editSpec(it.cluster(), 'state', spec => ({ ...spec, backup: { durable: false } }))
    const plain = await it.when('state', other => condition(other, 'Archiving') === undefined)
    expect(plain.status?.archive).toBeUndefined()
  })
})
