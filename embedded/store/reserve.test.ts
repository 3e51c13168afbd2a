/** A store on a full disk: it accepts deletions from its reserve, starts from it, and leaves it once space is free. */
import { appendFileSync, readdirSync, readFileSync, statSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { eventually, refusal } from '../../cluster/testing/conformance/suite.ts'
import { decodeFrames, encodeFrame } from './frames.ts'
import { isAccepted } from './pressure.ts'
import { configMap, faultyFiles, openDirectory, refusedToOpen, temporaryDirectory, testStore } from './testing/store.ts'

const reserveBytes = 256 * 1024
const names = (directory: string): string[] => readdirSync(directory).sort()

/** A store with a reserve, whose other files fail as configured. */
async function start() {
  const directory = temporaryDirectory()
  const disk = faultyFiles(path => !path.endsWith('journal-00000002'))
  const store = await openDirectory(directory, { openFile: disk.openFile, reserveBytes })
  const cluster = store.connect('test')
  await cluster.create('ConfigMap', configMap('kept', { value: '1' }))
  await cluster.create('ConfigMap', configMap('gone'))
  await eventually(async () => expect(names(directory)).toContain('reserve'))
  return { directory, disk, store, cluster }
}
const claim = {
  apiVersion: 'v1' as const,
  kind: 'PersistentVolumeClaim' as const,
  metadata: { namespace: 'default', name: 'claim' },
  spec: { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '1Gi' } } },
}

describe('a store whose disk is full', () => {
  test('deletes, refuses writes that need space, and keeps acknowledged writes through a kill', async () => {
    const { directory, disk, store, cluster } = await start()
    disk.fail('full')
    await cluster.delete('ConfigMap', { namespace: 'default', name: 'gone' })
    expect(store.isDiskFull()).toBe(true)
    expect(names(directory)).toEqual(['journal-00000001', 'journal-00000002', 'lock', 'manifest'])
    expect(statSync(join(directory, 'journal-00000002')).size).toBe(reserveBytes)
    const refused = await refusal(cluster.create('PersistentVolumeClaim', claim), 'Unavailable')
    expect(refused.message).toContain('is full: nothing was written; delete databases')

    // The state after a kill during a write.
    const journal = readFileSync(join(directory, 'journal-00000002'))
    const { end } = decodeFrames(journal)
    encodeFrame(Buffer.from('[{"put":{}}]')).copy(journal, end, 0, 15)
    const copy = temporaryDirectory()
    writeFileSync(join(copy, 'journal-00000001'), readFileSync(join(directory, 'journal-00000001')))
    writeFileSync(join(copy, 'journal-00000002'), journal)
    const { cluster: again, store: restarted } = await testStore({ directory: copy })
    expect((await again.list('ConfigMap')).items.map(({ metadata }) => metadata.name)).toEqual(['kept'])
    // The disk space of the write is still allocated, and contains only zeros.
    expect(restarted.isDiskFull()).toBe(true)
    const after = readFileSync(join(copy, 'journal-00000002'))
    expect(after.length).toBe(reserveBytes)
    expect(after.subarray(end).every(byte => byte === 0)).toBe(true)

    disk.fail('none')
    await eventually(async () => expect(store.isDiskFull()).toBe(false))
    await eventually(async () =>
      expect(names(directory)).toEqual(['journal-00000003', 'lock', 'manifest', 'reserve', 'snapshot-00000003']),
    )
    await cluster.create('PersistentVolumeClaim', claim)
    await store.close()
    await testStore({ directory })
  })

  test('refuses a flipped bit in the last record of its reserve', async () => {
    const { directory, disk, store, cluster } = await start()
    disk.fail('full')
    await cluster.delete('ConfigMap', { namespace: 'default', name: 'gone' })
    const path = join(directory, 'journal-00000002')
    await store.close()
    const bytes = readFileSync(path)
    const { end } = decodeFrames(bytes)
    bytes.writeUInt8(bytes.readUInt8(end - 10) ^ 1, end - 10)
    writeFileSync(path, bytes)
    expect((await refusedToOpen(directory)).message).toContain('its last record was written completely')
  })

  test('is read by a release without reserves as a file with a truncated tail', async () => {
    const { directory, disk, store, cluster } = await start()
    disk.fail('full')
    await cluster.delete('ConfigMap', { namespace: 'default', name: 'gone' })
    await store.close()
    const path = join(directory, 'journal-00000002')
    const { end, rest } = decodeFrames(readFileSync(path))
    expect(rest).toBe('torn')
    truncateSync(path, end)
    appendFileSync(path, 'ESPL')
    const { cluster: again } = await testStore({ directory })
    expect((await again.list('ConfigMap')).items).toHaveLength(1)
  })
})

describe('on a full disk', () => {
  const object = { metadata: { name: 'x' } }
  const going = { metadata: { name: 'x', deletionTimestamp: '2026-01-01T00:00:00Z' } }
  const create = { current: undefined, object, isDeleted: false }
  const update = { current: object, object, isDeleted: false }

  test.each([
    ['reserve', 'ManagedDatabase', create, false],
    ['reserve', 'Event', create, false],
    ['reserve', 'Pod', create, true],
    ['reserve', 'ManagedDatabase', update, true],
    ['scarce', 'ManagedDatabase', update, false],
    ['scarce', 'Lease', update, false],
    ['scarce', 'Task', create, true],
    ['scarce', 'ManagedDatabase', { ...update, object: going }, true],
    ['scarce', 'ManagedDatabase', { ...update, isDeleted: true }, true],
    ['none', 'ManagedDatabase', create, true],
  ] as const)('%s: %s', (pressure, kind, write, taken) => {
    expect(isAccepted(pressure, { kind, ...write })).toBe(taken)
  })
})
