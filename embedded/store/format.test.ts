/** The store's format number: an old release reports a newer format, and does not report it as damage. */
import { readdirSync, readFileSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { kindNames } from '../../cluster/kinds.ts'
import { decodeFrames, encodeFrame } from './frames.ts'
import type { StoreError } from './index.ts'
import { format } from './records.ts'
import { configMap, faultyFiles, openDirectory, refusedToOpen, temporaryDirectory, testStore } from './testing/store.ts'

/** A closed store with two ConfigMaps in its journal. */
async function written(): Promise<{ directory: string; journal: string }> {
  const directory = temporaryDirectory()
  const store = await openDirectory(directory)
  for (const name of ['a', 'b']) await store.connect('test').create('ConfigMap', configMap(name))
  await store.close()
  return { directory, journal: join(directory, 'journal-00000001') }
}

const frameOf = (payload: unknown): Buffer => encodeFrame(Buffer.from(JSON.stringify(payload)))
const payloadsOf = (path: string): unknown[] =>
  decodeFrames(readFileSync(path)).payloads.map(payload => JSON.parse(payload.toString()))
const append = (path: string, ...frames: Buffer[]): void =>
  writeFileSync(path, Buffer.concat([readFileSync(path), ...frames]))
/** Writes the same content with another format number. */
function restate(path: string, stated: number): void {
  const [header, ...rest] = payloadsOf(path)
  writeFileSync(path, Buffer.concat([{ ...(header as object), format: stated }, ...rest].map(frameOf)))
}
const formatOf = (path: string): unknown => (payloadsOf(path)[0] as { format?: unknown }).format
const contentOf = (directory: string): Record<string, string> =>
  Object.fromEntries(
    readdirSync(directory)
      .filter(name => name !== 'lock')
      .map(name => [name, readFileSync(join(directory, name)).toString('base64')]),
  )

/** Returns the refusal to open a directory, and checks that the directory is unchanged. */
async function refused(directory: string): Promise<StoreError> {
  const before = contentOf(directory)
  const error = await refusedToOpen(directory)
  expect(contentOf(directory)).toEqual(before)
  expect(error.message).not.toMatch(/or remove|delete/)
  return error
}

const advice = /start the newer release again; nothing is damaged; keep all files$/

describe('a store that a newer release wrote', () => {
  test('in a later format is reported with the format number, whatever the other files contain', async () => {
    const { directory, journal } = await written()
    restate(journal, 7)
    const expectedMessage = `${directory} was written by a newer release (format 7; this release reads up to ${format})`
    const error = await refused(directory)
    expect([error.reason, error.message]).toEqual(['newer', expect.stringContaining(expectedMessage)])
    expect(error.message).toMatch(advice)
    // The frames after the first have another form.
    append(journal, Buffer.from('ESP2 and so on'))
    expect((await refused(directory)).message).toContain(expectedMessage)
    // The directory also has a snapshot of a later format.
    writeFileSync(join(directory, 'snapshot-00000009'), frameOf({ format: 8 }))
    writeFileSync(join(directory, 'snapshot.new'), 'being written')
    expect((await refused(directory)).message).toContain('(format 8; ')
  })

  test.each<[string, unknown, string]>([
    [
      'an unknown kind',
      { put: { kind: 'Flux', metadata: { name: 'x', resourceVersion: '5' } } },
      'objects of the kind Flux',
    ],
    ['a deleted object of an unknown kind', { version: 5, gone: ['Flux', 'default', 'x'] }, 'objects of the kind Flux'],
    ['an unknown record', { moved: 'from here' }, 'records of a type'],
    ['an unknown form of an object', { put: { kind: 'ConfigMap' } }, 'records of a type'],
  ])('with %s is distinguished from damage', async (_, record, what) => {
    const { directory, journal } = await written()
    append(journal, frameOf([record]))
    const error = await refused(directory)
    expect([error.reason, error.message]).toEqual([
      'newer',
      expect.stringContaining(`a newer release (journal-00000001 contains ${what} that this release does not know)`),
    ])
    expect(error.message).toMatch(advice)
    // A truncated write follows. This release must not drop it, because it cannot read the records before it.
    append(journal, frameOf([]).subarray(0, 9))
    expect((await refused(directory)).reason).toBe('newer')
  })

  test('with a batch that is not JSON is distinguished from damage', async () => {
    const { directory, journal } = await written()
    append(journal, encodeFrame(Buffer.from([1, 2, 3])))
    expect((await refused(directory)).reason).toBe('newer')
  })

  test('is reported as damaged if a record is damaged', async () => {
    const { directory, journal } = await written()
    append(journal, frameOf([{ moved: 'from here' }]), frameOf([]))
    const bytes = readFileSync(journal)
    bytes.writeUInt8(bytes.readUInt8(80) ^ 1, 80)
    writeFileSync(journal, bytes)
    const error = await refused(directory)
    expect([error.reason, error.message]).toEqual(['corrupt', expect.stringContaining('copy the whole directory')])
  })

  test('is reported as damaged if the first record of its journal is missing', async () => {
    const { directory, journal } = await written()
    const [first] = decodeFrames(readFileSync(journal)).payloads
    writeFileSync(journal, readFileSync(journal).subarray(encodeFrame(first ?? Buffer.alloc(0)).length))
    expect((await refused(directory)).reason).toBe('corrupt')
  })
})

describe('a store of the previous format', () => {
  test('is read, and gets the current format at the first write', async () => {
    const { directory, journal } = await written()
    restate(journal, format - 1)
    const before = readFileSync(journal)
    const untouched = await openDirectory(directory)
    await untouched.close()
    expect(readFileSync(journal).equals(before)).toBe(true)
    const store = await openDirectory(directory)
    await store.connect('test').create('ConfigMap', configMap('c'))
    await store.close()
    const files = readdirSync(directory).filter(name => /^(journal|snapshot)-/.test(name))
    expect(files.sort()).toEqual(['journal-00000002', 'snapshot-00000002'])
    expect(files.map(name => formatOf(join(directory, name)))).toEqual([format, format])
    const { cluster } = await testStore({ directory })
    expect((await cluster.list('ConfigMap')).items.map(({ metadata }) => metadata.name)).toEqual(['a', 'b', 'c'])
  })

  test('keeps its format and its data if the disk accepts no new file', async () => {
    const { directory, journal } = await written()
    restate(journal, format - 1)
    const disk = faultyFiles()
    const store = await openDirectory(directory, { openFile: disk.openFile })
    disk.fail('unconfirmed', 1)
    await store.connect('test').create('ConfigMap', configMap('c'))
    await store.close()
    expect(formatOf(journal)).toBe(format - 1)
    const { cluster } = await testStore({ directory })
    expect((await cluster.list('ConfigMap')).items).toHaveLength(3)
  })

  test('drops a truncated last write before the first new write', async () => {
    const { directory, journal } = await written()
    restate(journal, format - 1)
    truncateSync(journal, readFileSync(journal).length - 3)
    const store = await openDirectory(directory)
    await store.connect('test').create('ConfigMap', configMap('c'))
    await store.close()
    const { cluster } = await testStore({ directory })
    expect((await cluster.list('ConfigMap')).items.map(({ metadata }) => metadata.name)).toEqual(['a', 'c'])
  })
})

test('the format number changes with each new kind', () => {
  // After adding a kind: raise the format (records.ts) and add the kind to this list. A release that does not know the
  // kind must report it.
  expect({ format, kinds: kindNames.toSorted() }).toEqual({
    format: 3,
    kinds: [
      'Backup',
      'Branch',
      'ConfigMap',
      'Deployment',
      'Event',
      'Job',
      'Lease',
      'ManagedDatabase',
      'Namespace',
      'NetworkPolicy',
      'Node',
      'PersistentVolume',
      'PersistentVolumeClaim',
      'Pod',
      'PodDisruptionBudget',
      'Region',
      'ResourceQuota',
      'Restore',
      'RoleBinding',
      'Secret',
      'Service',
      'Size',
      'StatefulSet',
      'Task',
      'Tenant',
      'VolumeSnapshot',
    ],
  })
})
