/** A store on a full disk: it writes deletions into its reserve, restarts with it, and leaves it when space is free. */
import { appendFileSync, readdirSync, readFileSync, statSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { eventually, refusal } from '../../cluster/testing/conformance/suite.ts'
import { decodeFrames, encodeFrame } from './frames.ts'
import { isAccepted } from './pressure.ts'
import { configMap, faultyFiles, openDirectory, refusedToOpen, temporaryDirectory, testStore } from './testing/store.ts'

const reserveBytes = 256 * 1024
const names = (directory: string): string[] => readdirSync(directory).sort()

/** A store with a reserve. All files except journal 2, which the reserve becomes, fail as configured. */
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
  test('accepts deletions, refuses writes that need space, and keeps acknowledged writes after a kill', async () => {
    const { directory, disk, store, cluster } = await start()
    disk.fail('full')
    await cluster.delete('ConfigMap', { namespace: 'default', name: 'gone' })
    expect(store.isDiskFull()).toBe(true)
    expect(names(directory)).toEqual(['journal-00000001', 'journal-00000002', 'lock', 'manifest'])
    expect(statSync(join(directory, 'journal-00000002')).size).toBe(reserveBytes)
    const refused = await refusal(cluster.create('PersistentVolumeClaim', claim), 'Unavailable')
    expect(refused.message).toContain('is full; nothing was written; free disk space')

    // The state after a kill during a write.
    const journal = readFileSync(join(directory, 'journal-00000002'))
    const { end } = decodeFrames(journal)
    encodeFrame(Buffer.from('[{"put":{}}]')).copy(journal, end, 0, 15)
    const copy = temporaryDirectory()
    writeFileSync(join(copy, 'journal-00000001'), readFileSync(join(directory, 'journal-00000001')))
    writeFileSync(join(copy, 'journal-00000002'), journal)
    const { cluster: again, store: restarted } = await testStore({ directory: copy })
    expect((await again.list('ConfigMap')).items.map(({ metadata }) => metadata.name)).toEqual(['kept'])
    // The truncated write is replaced by zeros, so that its disk space stays allocated.
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

  test('refuses to open if a bit in the last record of its reserve was flipped', async () => {
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

  test('leaves a journal that a release without reserves reads as a truncated write', async () => {
    const { directory, disk, store, cluster } = await start()
    disk.fail('full')
    await cluster.delete('ConfigMap', { namespace: 'default', name: 'gone' })
    await store.close()
    const path = join(directory, 'journal-00000002')
    const { end, rest } = decodeFrames(readFileSync(path))
    expect(rest).toBe('truncated')
    truncateSync(path, end)
    appendFileSync(path, 'ESPL')
    const { cluster: again } = await testStore({ directory })
    expect((await again.list('ConfigMap')).items).toHaveLength(1)
  })
})

describe('on a disk with the pressure', () => {
  const object = { metadata: { name: 'x' } }
  const terminating = { metadata: { name: 'x', deletionTimestamp: '2026-01-01T00:00:00Z' } }
  const create = { current: undefined, object, isDeleted: false }
  const update = { current: object, object, isDeleted: false }

  test.each([
    ['reserve', 'a new ManagedDatabase', 'refused', 'ManagedDatabase', create],
    ['reserve', 'a new Event', 'refused', 'Event', create],
    ['reserve', 'a new Pod', 'accepted', 'Pod', create],
    ['reserve', 'an update of a ManagedDatabase', 'accepted', 'ManagedDatabase', update],
    ['scarce', 'an update of a ManagedDatabase', 'refused', 'ManagedDatabase', update],
    ['scarce', 'an update of a Lease', 'refused', 'Lease', update],
    ['scarce', 'a new Task', 'accepted', 'Task', create],
    ['scarce', 'an update during a deletion', 'accepted', 'ManagedDatabase', { ...update, object: terminating }],
    ['scarce', 'the end of a deletion', 'accepted', 'ManagedDatabase', { ...update, isDeleted: true }],
    ['none', 'a new ManagedDatabase', 'accepted', 'ManagedDatabase', create],
  ] as const)('%s, %s is %s', (pressure, _what, outcome, kind, write) => {
    expect(isAccepted(pressure, { kind, ...write })).toBe(outcome === 'accepted')
  })
})
