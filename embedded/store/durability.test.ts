/**
 * Durability on disk: content survives a restart, and only its owner can read it. The store reports damage and a full
 * disk, and does not make the damage worse.
 */
import { spawnSync } from 'node:child_process'
import {
  copyFileSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import pino from 'pino'
import { describe, expect, test } from 'vitest'
import type { Cluster } from '../../cluster/index.ts'
import { eventually, refusal } from '../../cluster/testing/conformance/suite.ts'
import type { StoreError } from './errors.ts'
import { decodeFrames, encodeFrame } from './frames.ts'
import {
  configMap,
  definitions,
  faultyFiles,
  openDirectory,
  refusedToOpen,
  temporaryDirectory,
  testStore,
} from './testing/store.ts'

const dataOf = async (cluster: Cluster): Promise<Record<string, string>> =>
  Object.fromEntries(
    (await cluster.list('ConfigMap')).items.map(({ metadata, data }) => [metadata.name, data?.value ?? '']),
  )

const files = (directory: string, prefix: string): string[] =>
  readdirSync(directory)
    .filter(name => name.startsWith(prefix))
    .sort()

describe('a directory', () => {
  test('keeps everything across a restart: objects, versions, uids, field owners', async () => {
    const directory = temporaryDirectory()
    const first = await openDirectory(directory)
    const cluster = first.connect('test')
    await cluster.create('ConfigMap', configMap('gone'))
    await cluster.delete('ConfigMap', { namespace: 'default', name: 'gone' })
    await cluster.apply('ConfigMap', configMap('one', { value: '1', dropped: 'soon' }))
    const before = await cluster.list('ConfigMap')
    await first.close()
    const { cluster: again } = await testStore({ directory })
    expect(await again.list('ConfigMap')).toEqual(before)
    const applied = await again.apply('ConfigMap', configMap('one', { value: '2' }))
    expect(applied.data).toEqual({ value: '2' })
    expect(BigInt(applied.metadata.resourceVersion ?? 0)).toBe(BigInt(before.resourceVersion) + 1n)
  })

  test('is readable only by its owner', async () => {
    const directory = join(temporaryDirectory(), 'deep', 'store')
    mkdirSync(directory, { recursive: true, mode: 0o755 })
    await testStore({ directory })
    expect(statSync(directory).mode & 0o777).toBe(0o700)
    for (const name of readdirSync(directory)) expect(statSync(join(directory, name)).mode & 0o077, name).toBe(0)
  })

  test('can be opened only once at a time, in this process and in any other', async () => {
    const directory = temporaryDirectory()
    await testStore({ directory })
    const check = (error: StoreError): void => {
      expect(error.reason).toBe('locked')
      expect(error.message).toContain(`${directory} is in use by process ${process.pid}`)
    }
    check(await refusedToOpen(directory))
    const script = `import { lockDirectory } from ${JSON.stringify(join(import.meta.dirname, 'lock.ts'))}
      try { lockDirectory(${JSON.stringify(directory)}); console.log('opened') } catch (error) { console.log(error.message) }`
    const other = spawnSync(process.execPath, ['--input-type=module', '-e', script], { encoding: 'utf8' })
    expect(other.stdout).toContain(`in use by process ${process.pid}`)
    // An earlier release wrote its process id to `owner`. On a full disk that file is outdated.
    writeFileSync(join(directory, 'owner'), '999999\n')
    check(await refusedToOpen(directory))
  })

  test('that cannot be used is refused; the message contains the path', async () => {
    const path = join(temporaryDirectory(), 'file')
    writeFileSync(path, '')
    const error = await refusedToOpen(path)
    expect(error.reason).toBe('inaccessible')
    expect(error.message).toContain(path)
  })

  test('from an earlier release can be opened, and its objects get the defaults that this release added', async () => {
    const directory = temporaryDirectory()
    const old = structuredClone(definitions)
    const tenant = old.find(({ spec }) => spec.names.kind === 'Tenant')
    const spec = tenant?.spec.versions[0]?.schema.openAPIV3Schema as { properties: { spec: { properties: object } } }
    const { plan: _plan, ...properties } = spec.properties.spec.properties as { plan: unknown }
    spec.properties.spec.properties = properties
    const first = await openDirectory(directory, { definitions: old })
    await first.connect('test').create('Tenant', {
      apiVersion: 'espalier.dev/v1alpha1',
      kind: 'Tenant',
      metadata: { name: 't-one' },
      spec: { tenantId: 'one' },
    })
    await first.close()
    const { cluster } = await testStore({ directory })
    expect((await cluster.get('Tenant', { name: 't-one' }))?.spec.plan).toEqual({ name: 'standard' })
  })
})

describe('compaction', () => {
  test('loses nothing, and keeps the directory small', async () => {
    const directory = temporaryDirectory()
    const store = await openDirectory(directory, { compactAfterBytes: 20_000 })
    const cluster = store.connect('test')
    for (let round = 0; round < 40; round++) {
      await Promise.all(
        Array.from({ length: 10 }, (_, index) =>
          cluster.apply('ConfigMap', configMap(`c${index}`, { value: `${round}` })),
        ),
      )
    }
    await store.close()
    expect(files(directory, 'snapshot')).toHaveLength(1)
    expect(files(directory, 'journal').length).toBeLessThanOrEqual(2)
    const { cluster: again } = await testStore({ directory })
    expect(Object.values(await dataOf(again))).toEqual(Array.from({ length: 10 }, () => '39'))
  })

  test('that a crash interrupts loses nothing: the store reads the previous snapshot and the later journals', async () => {
    const directory = temporaryDirectory()
    const store = await openDirectory(directory, { compactAfterBytes: 5000 })
    const cluster = store.connect('test')
    for (let write = 0; write < 40; write++) await cluster.apply('ConfigMap', configMap('one', { value: `${write}` }))
    await store.close()
    const [journal] = files(directory, 'journal').slice(-1)
    const next = `journal-${`${Number(journal?.slice(8)) + 1}`.padStart(8, '0')}`
    // The state after a crash: an incomplete snapshot, and a journal whose header never reached the disk.
    writeFileSync(join(directory, 'snapshot.new'), 'unfinished')
    writeFileSync(join(directory, next), 'ESPL')
    const { cluster: again } = await testStore({ directory })
    expect(await dataOf(again)).toEqual({ one: '39' })
    expect(files(directory, 'snapshot.new')).toEqual([])
  })
})

describe('a crash', () => {
  test('during garbage collection does not stop the collection', async () => {
    const directory = temporaryDirectory()
    const first = await openDirectory(directory)
    const cluster = first.connect('test')
    const { name, uid = '' } = (await cluster.create('ConfigMap', configMap('owner'))).metadata
    const ownerReferences = [{ apiVersion: 'v1', kind: 'ConfigMap', name, uid }]
    await cluster.create('ConfigMap', configMap('child', {}, { ownerReferences }))
    await cluster.delete('ConfigMap', { namespace: 'default', name })
    await eventually(async () => expect((await cluster.list('ConfigMap')).items).toEqual([]))
    await first.close()
    // As if the deletion of the child had not reached the disk.
    const journal = join(directory, files(directory, 'journal')[0] ?? '')
    const last = decodeFrames(readFileSync(journal)).payloads.at(-1) ?? Buffer.alloc(0)
    expect(last.toString()).toContain('"gone":["ConfigMap","default","child"]')
    truncateSync(journal, statSync(journal).size - encodeFrame(last).length)
    const { cluster: again } = await testStore({ directory })
    await eventually(async () => expect((await again.list('ConfigMap')).items).toEqual([]))
  })
})

describe('a damaged store', () => {
  /** A closed store with three ConfigMaps in its journal. */
  async function written(): Promise<{ directory: string; journal: string }> {
    const directory = temporaryDirectory()
    const store = await openDirectory(directory)
    for (const name of ['a', 'b', 'c'])
      await store.connect('test').create('ConfigMap', configMap(name, { value: name }))
    await store.close()
    return { directory, journal: join(directory, files(directory, 'journal')[0] ?? '') }
  }

  test('with a truncated last write opens without this write, and logs it', async () => {
    const { directory, journal } = await written()
    const last = decodeFrames(readFileSync(journal)).payloads.at(-1) ?? Buffer.alloc(0)
    const intactBytes = statSync(journal).size - encodeFrame(last).length
    truncateSync(journal, statSync(journal).size - 3)
    const lines: string[] = []
    const logger = pino({ level: 'warn' }, { write: line => void lines.push(line) })
    const { cluster } = await testStore({ directory, logger })
    expect(await dataOf(cluster)).toEqual({ a: 'a', b: 'b' })
    expect(lines.join()).toContain('dropped a truncated last write')
    expect(statSync(journal).size).toBe(intactBytes)
    await cluster.create('ConfigMap', configMap('d', { value: 'd' }))
    expect(Object.keys(await dataOf(cluster))).toEqual(['a', 'b', 'd'])
  })

  test('with a damaged record in the middle is refused, with the position', async () => {
    const { directory, journal } = await written()
    const bytes = readFileSync(journal)
    const at = Math.floor(bytes.length / 2)
    bytes.writeUInt8(bytes.readUInt8(at) ^ 1, at)
    writeFileSync(journal, bytes)
    const error = await refusedToOpen(directory)
    expect(error.reason).toBe('corrupt')
    expect(error.message).toMatch(/journal-00000001 is damaged at byte \d+/)
    expect(readFileSync(journal)).toEqual(bytes)
  })

  test('with a flipped bit anywhere is refused with file and position, and is not changed', async () => {
    const { directory, journal } = await written()
    const sound = readFileSync(journal)
    for (let at = 0; at < sound.length; at += 5) {
      const bytes = Buffer.from(sound)
      bytes.writeUInt8(bytes.readUInt8(at) ^ (1 << (at % 8)), at)
      writeFileSync(journal, bytes)
      const error = await refusedToOpen(directory)
      expect(error.reason).toBe('corrupt')
      expect(error.message).toMatch(/journal-00000001 is damaged at byte \d+/)
      expect(readFileSync(journal).equals(bytes)).toBe(true)
    }
    writeFileSync(journal, sound)
    const { cluster } = await testStore({ directory })
    expect(await dataOf(cluster)).toEqual({ a: 'a', b: 'b', c: 'c' })
  })

  test('with a damaged last record is refused, with instructions for a start without this record', async () => {
    const { directory, journal } = await written()
    const bytes = readFileSync(journal)
    const at = bytes.length - 20
    bytes.writeUInt8(bytes.readUInt8(at) ^ 1, at)
    writeFileSync(journal, bytes)
    const [, length = ''] = /truncate -s (\d+)/.exec((await refusedToOpen(directory)).message) ?? []
    truncateSync(journal, Number(length))
    const { cluster } = await testStore({ directory })
    expect(await dataOf(cluster)).toEqual({ a: 'a', b: 'b' })
  })

  test('with a copy of a journal in place of the next journal is refused', async () => {
    const { directory, journal } = await written()
    copyFileSync(journal, join(directory, 'journal-00000002'))
    expect((await refusedToOpen(directory)).message).toContain(
      'journal-00000002 is journal 1 at version 1; expected journal 2 at version 5',
    )
  })

  test('with a missing record is refused', async () => {
    const { directory, journal } = await written()
    const frames = decodeFrames(readFileSync(journal)).payloads.map(encodeFrame)
    writeFileSync(journal, Buffer.concat(frames.toSpliced(2, 1)))
    expect((await refusedToOpen(directory)).message).toContain('continues at version 4 after version 2')
  })

  test('whose newest journal is missing or empty is refused, and is not changed', async () => {
    const { directory, journal } = await written()
    const content = readFileSync(journal)
    rmSync(journal)
    const before = readdirSync(directory)
    const error = await refusedToOpen(directory)
    expect(error.reason).toBe('corrupt')
    expect(error.message).toContain('journal-00000001 is missing')
    expect(error.message).toContain('espalier rescue')
    expect(readdirSync(directory)).toEqual(before)
    for (const lost of [Buffer.alloc(0), Buffer.alloc(content.length), Buffer.alloc(10_000)]) {
      writeFileSync(journal, lost)
      expect((await refusedToOpen(directory)).message).toContain('has lost its content')
      expect(readFileSync(journal)).toEqual(lost)
    }
    writeFileSync(journal, content)
    const { cluster } = await testStore({ directory })
    expect(Object.keys(await dataOf(cluster))).toEqual(['a', 'b', 'c'])
  })

  test('whose newest journal is missing is refused, even if a snapshot exists', async () => {
    const directory = temporaryDirectory()
    const store = await openDirectory(directory, { compactAfterBytes: 5000 })
    for (let write = 0; write < 40; write++) {
      await store.connect('test').apply('ConfigMap', configMap('one', { value: `${write}` }))
    }
    await store.close()
    rmSync(join(directory, files(directory, 'journal').at(-1) ?? ''))
    expect((await refusedToOpen(directory)).message).toContain('is missing')
  })

  test('without a manifest, as from an earlier release, opens, and gets a manifest at the first write', async () => {
    const { directory, journal } = await written()
    rmSync(join(directory, 'manifest'))
    const store = await openDirectory(directory)
    await store.connect('test').create('ConfigMap', configMap('d'))
    await store.close()
    rmSync(journal)
    expect((await refusedToOpen(directory)).message).toContain('is missing')
  })

  test('with a damaged or missing snapshot is refused', async () => {
    const directory = temporaryDirectory()
    const store = await openDirectory(directory, { compactAfterBytes: 5000 })
    for (let write = 0; write < 40; write++) {
      await store.connect('test').apply('ConfigMap', configMap('one', { value: `${write}` }))
    }
    await store.close()
    const snapshot = join(directory, files(directory, 'snapshot')[0] ?? '')
    const bytes = readFileSync(snapshot)
    writeFileSync(snapshot, bytes.subarray(0, bytes.length - 5))
    expect((await refusedToOpen(directory)).message).toContain('snapshot')
    rmSync(snapshot)
    expect((await refusedToOpen(directory)).message).toContain('is missing')
  })
})

describe('a store on a disk', () => {
  test('that is full refuses writes with a clear error, serves reads, and recovers when space is free', async () => {
    const directory = temporaryDirectory()
    const disk = faultyFiles()
    const store = await openDirectory(directory, { openFile: disk.openFile })
    const cluster = store.connect('test')
    const stored = await cluster.create('ConfigMap', configMap('kept', { value: '1' }))
    const journal = join(directory, files(directory, 'journal')[0] ?? '')
    const { size } = statSync(journal)
    disk.fail('full')
    const writes = ['x', 'y', 'z'].map(name => cluster.create('ConfigMap', configMap(name)))
    for (const write of writes) expect((await refusal(write, 'Unavailable')).message).toContain('full')
    expect(await cluster.get('ConfigMap', { namespace: 'default', name: 'kept' })).toEqual(stored)
    expect(await dataOf(cluster)).toEqual({ kept: '1' })
    expect(statSync(journal).size).toBe(size)
    disk.fail('none')
    const next = await cluster.create('ConfigMap', configMap('x', { value: '2' }))
    expect(BigInt(next.metadata.resourceVersion ?? 0)).toBe(BigInt(stored.metadata.resourceVersion ?? 0) + 1n)
    await store.close()
    const { cluster: again } = await testStore({ directory })
    expect(await dataOf(again)).toEqual({ kept: '1', x: '2' })
  })

  test('that fails to sync a write never shows the refused write again', async () => {
    const directory = temporaryDirectory()
    const disk = faultyFiles()
    const store = await openDirectory(directory, { openFile: disk.openFile })
    const cluster = store.connect('test')
    await cluster.create('ConfigMap', configMap('kept', { value: '1' }))
    disk.fail('unconfirmed')
    await refusal(cluster.create('ConfigMap', configMap('x', { value: 'refused' })), 'Unavailable')
    await refusal(cluster.create('ConfigMap', configMap('y', { value: 'refused' })), 'Unavailable')
    disk.fail('none')
    await cluster.create('ConfigMap', configMap('z', { value: '2' }))
    // The store never writes again to a file that contains an unconfirmed write.
    expect(files(directory, 'journal')).toEqual(['journal-00000002'])
    expect(await dataOf(cluster)).toEqual({ kept: '1', z: '2' })
    await store.close()
    const { cluster: again } = await testStore({ directory })
    expect(await dataOf(again)).toEqual({ kept: '1', z: '2' })
  })

  test('that fails to start a new journal keeps only the current journal', async () => {
    const directory = temporaryDirectory()
    const disk = faultyFiles()
    const store = await openDirectory(directory, { openFile: disk.openFile, compactAfterBytes: 2000 })
    const cluster = store.connect('test')
    await cluster.create('ConfigMap', configMap('one', { value: 'x'.repeat(3000) }))
    disk.fail('unconfirmed', 1)
    await cluster.create('ConfigMap', configMap('two', { value: '2' }))
    expect(files(directory, 'journal')).toEqual(['journal-00000001'])
    await store.close()
    const { cluster: again } = await testStore({ directory })
    expect(Object.keys(await dataOf(again))).toEqual(['one', 'two'])
  })

  test.each([
    ['EFBIG', 'file size limit', /ulimit -f/],
    ['ENFILE', "machine's limit of open files", /fs\.file-max/],
  ] as const)('that fails with %s reports the %s, not a full disk', async (fault, _limit, advice) => {
    const disk = faultyFiles()
    const { cluster } = await testStore({ directory: temporaryDirectory(), openFile: disk.openFile })
    disk.fail(fault)
    const { message } = await refusal(cluster.create('ConfigMap', configMap('one')), 'Unavailable')
    expect(message).toMatch(advice)
    expect(message).not.toContain('is full')
  })

  test('that is full during compaction loses nothing', async () => {
    const directory = temporaryDirectory()
    const disk = faultyFiles()
    const store = await openDirectory(directory, { openFile: disk.openFile, compactAfterBytes: 3000 })
    const cluster = store.connect('test')
    const expected: Record<string, string> = {}
    for (let write = 0; write < 60; write++) {
      disk.fail(write % 7 === 3 ? 'full' : 'none')
      const name = `c${write % 5}`
      const value = `${write}`
      await cluster.apply('ConfigMap', configMap(name, { value })).then(
        () => Object.assign(expected, { [name]: value }),
        error => expect(error.reason).toBe('Unavailable'),
      )
    }
    disk.fail('none')
    expect(await dataOf(cluster)).toEqual(expected)
    await store.close()
    const { cluster: again } = await testStore({ directory })
    expect(await dataOf(again)).toEqual(expected)
  })
})

test('the store accepts writes without free file descriptors, and loses none of them', async () => {
  const directory = temporaryDirectory()
  const script = join(import.meta.dirname, 'testing', 'descriptors.ts')
  const command = 'ulimit -n 40; exec "$0" "$@"'
  const { stdout, signal, stderr } = spawnSync('sh', ['-c', command, process.execPath, script, directory], {
    encoding: 'utf8',
  })
  expect(signal, stderr).toBe('SIGKILL')
  const outcomes = stdout.trim().split('\n')
  expect(outcomes).toHaveLength(62)
  expect(outcomes[1]).toBe('- EMFILE')
  const stored = outcomes.filter(line => line.endsWith(' kept')).map(line => line.split(' ')[0] ?? '')
  expect(stored).toHaveLength(61)
  const { cluster } = await testStore({ directory })
  expect(Object.keys(await dataOf(cluster)).sort()).toEqual(stored.sort())
  // The store starts a new journal as soon as it can open files again.
  expect(files(directory, 'journal')).not.toEqual(['journal-00000001'])
})

describe('a store whose directory is removed while it is open', () => {
  const expectedMessage = /store is missing: it was deleted or moved while it was in use; writes are refused/

  test('refuses writes and reports why; reads still work', async () => {
    const directory = join(temporaryDirectory(), 'store')
    const { cluster } = await testStore({ directory })
    await cluster.create('ConfigMap', configMap('one', { value: '1' }))
    rmSync(directory, { recursive: true })
    expect((await refusal(cluster.create('ConfigMap', configMap('two')), 'Unavailable')).message).toMatch(
      expectedMessage,
    )
    // The store refuses writes even if a new directory gets the same name.
    mkdirSync(directory)
    expect((await refusal(cluster.create('ConfigMap', configMap('two')), 'Unavailable')).message).toMatch(
      expectedMessage,
    )
    expect(readdirSync(directory)).toEqual([])
    expect(await dataOf(cluster)).toEqual({ one: '1' })
  })

  test('accepts writes again when the directory is put back, and has stored no refused write', async () => {
    const directory = join(temporaryDirectory(), 'store')
    const store = await openDirectory(directory)
    const cluster = store.connect('test')
    await cluster.create('ConfigMap', configMap('one', { value: '1' }))
    renameSync(directory, `${directory}.aside`)
    await refusal(cluster.create('ConfigMap', configMap('refused')), 'Unavailable')
    renameSync(`${directory}.aside`, directory)
    await cluster.create('ConfigMap', configMap('two', { value: '2' }))
    await store.close()
    const { cluster: again } = await testStore({ directory })
    expect(await dataOf(again)).toEqual({ one: '1', two: '2' })
  })
})
