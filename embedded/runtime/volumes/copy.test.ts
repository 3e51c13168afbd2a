import { execFileSync, spawnSync } from 'node:child_process'
import {
  appendFileSync,
  chmodSync,
  closeSync,
  existsSync,
  linkSync,
  lstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  rmSync,
  statfsSync,
  statSync,
  symlinkSync,
  truncateSync,
  utimesSync,
  writeFileSync,
  writeSync,
} from 'node:fs'
import { join } from 'node:path'
import fc from 'fast-check'
import { describe, expect, onTestFinished, test } from 'vitest'
import { mountDisk } from '../testing/disk.ts'
import { temporaryDirectory } from '../testing/runtime.ts'
import { copyHot, openCopier } from './copier.ts'
import { createTreeCopy } from './copy.ts'
import { compareFingerprints, type Fingerprint } from './fingerprint.ts'
import { isUnwrittenSegment } from './wal.ts'

const isRoot = process.getuid?.() === 0
const canShareBlocks = isRoot && existsSync('/dev/loop-control') && spawnSync('mkfs.xfs', ['-V']).status === 0

/** The full content of a tree: kinds, modes, contents, link targets. */
function contents(root: string, path = ''): Record<string, string> {
  const here = join(root, path)
  const stats = lstatSync(here)
  const mode = (stats.mode & 0o777).toString(8)
  if (stats.isSymbolicLink()) return { [path]: `-> ${readlinkSync(here)}` }
  if (stats.isFile()) return { [path]: `${mode} ${readFileSync(here, 'latin1')}` }
  const inside = readdirSync(here).map(name => contents(root, join(path, name)))
  return Object.assign({ [path]: mode }, ...inside)
}

function tree(): { source: string; target: string } {
  const root = temporaryDirectory()
  mkdirSync(join(root, 'source'))
  return { source: join(root, 'source'), target: join(root, 'target') }
}

/** A file system that can share blocks. */
const reflinkDisk = (): string => mountDisk('xfs', '400M')

const names = ['a', 'b', 'd/a', 'd/b', 'd/e/a']
type Change = { kind: number; name: string; other: string; text: string }
const change: fc.Arbitrary<Change> = fc.record({
  kind: fc.nat(8),
  name: fc.constantFrom(...names),
  other: fc.constantFrom(...names),
  text: fc.string({ maxLength: 20 }),
})

/** Changes a tree at random; impossible changes are skipped. */
function apply(root: string, { kind, name, other, text }: Change): void {
  const [path, second] = [join(root, name), join(root, other)]
  try {
    mkdirSync(join(path, '..'), { recursive: true })
    if (kind <= 1) writeFileSync(path, text)
    else if (kind === 2) appendFileSync(path, text)
    else if (kind === 3) truncateSync(path, 0)
    else if (kind === 4) rmSync(path, { recursive: true, force: true })
    else if (kind === 5) renameSync(path, second)
    else if (kind === 6) chmodSync(path, lstatSync(path).isDirectory() ? 0o750 : 0o640)
    else if (kind === 7) symlinkSync(other, path)
    else linkSync(path, second)
  } catch {
    // the file does not exist, the path is a directory, ...
  }
}

test('an entry is unchanged only if a change would certainly be visible', () => {
  const fingerprint: Fingerprint = { kind: 'file', size: 8n, inode: 7n, modified: 1000n, changed: 2000n }
  expect(compareFingerprints(undefined, fingerprint)).toBe('changed')
  expect(compareFingerprints({ fingerprint, certainBefore: 2001n }, fingerprint)).toBe('same')
  expect(compareFingerprints({ fingerprint, certainBefore: 2000n }, fingerprint)).toBe('uncertain')
  expect(compareFingerprints({ fingerprint, certainBefore: 1500n }, fingerprint)).toBe('uncertain')
  // The time is in the future, because the clock was set back.
  expect(
    compareFingerprints(
      { fingerprint: { ...fingerprint, modified: 9000n }, certainBefore: 5000n },
      { ...fingerprint, modified: 9000n },
    ),
  ).toBe('uncertain')
  for (const change of [
    { size: 9n },
    { inode: 1n },
    { modified: 1001n },
    { changed: 2001n },
    { kind: 'link' as const },
  ]) {
    expect(compareFingerprints({ fingerprint, certainBefore: 5000n }, { ...fingerprint, ...change })).toBe('changed')
  }
})

describe('createTreeCopy', () => {
  const whatever = (numRuns: number, makePaths: () => { source: string; target: string }) =>
    fc.assert(
      fc.property(fc.array(fc.array(change, { maxLength: 12 }), { maxLength: 4 }), rounds => {
        const { source, target } = makePaths()
        const copy = createTreeCopy(source, target)
        for (const round of rounds) {
          for (const step of round) apply(source, step)
          copy.pass(false)
        }
        for (const step of rounds.at(0) ?? []) apply(source, step)
        copy.pass(true)
        expect(contents(target)).toEqual(contents(source))
      }),
      { numRuns },
    )

  test('the last pass makes the copy exact, whatever changed between the passes', () => whatever(80, tree))

  test.runIf(canShareBlocks)(
    'the last pass makes the copy exact with shared blocks too, whatever changed between the passes',
    () => {
      const disk = reflinkDisk()
      let runs = 0
      whatever(80, () => {
        runs += 1
        const [source, target] = [join(disk, `source-${runs}`), join(disk, `target-${runs}`)]
        mkdirSync(source)
        return { source, target }
      })
    },
  )

  test('a change that keeps size and times is not missed', () => {
    const { source, target } = tree()
    for (let index = 0; index < 300; index += 1) writeFileSync(join(source, String(index)), 'before')
    const copy = createTreeCopy(source, target)
    copy.pass(false)
    const changed = Array.from({ length: 300 }, (_, index) => join(source, String(index)))
    for (const path of changed) writeFileSync(path, 'after!')
    copy.pass(false)
    // Changes many files at once, within the same tick of the file system's clock.
    for (const path of changed) {
      const { atime, mtime } = statSync(path)
      writeFileSync(path, 'later!')
      utimesSync(path, atime, mtime)
    }
    copy.pass(true)
    expect(contents(target)).toEqual(contents(source))
  })

  test('the last pass copies only what has changed', () => {
    const { source, target } = tree()
    for (const name of ['a', 'b', 'c']) writeFileSync(join(source, name), 'x'.repeat(1000))
    const copy = createTreeCopy(source, target)
    expect(copy.pass(false)).toMatchObject({ copied: 4, copiedBytes: 3000, bytes: 3000 })
    appendFileSync(join(source, 'b'), 'y')
    expect(copy.pass(true)).toMatchObject({ copiedBytes: 1001, bytes: 3001 })
  })

  test('only changed blocks of a large file are written again, whatever the change', () => {
    const { source, target } = tree()
    const [file, length] = [join(source, 'long'), 24 * 1024 * 1024]
    writeFileSync(file, Buffer.alloc(length, 'x'))
    const copy = createTreeCopy(source, target)
    copy.pass(false)
    const write = (text: string, position: number) => {
      const descriptor = openSync(file, 'r+')
      writeSync(descriptor, text, position)
      closeSync(descriptor)
    }
    const changes = [
      () => write('y', 5_000_000),
      () => write('at the end', length - 3),
      () => truncateSync(file, length - 1_000_000),
      () => appendFileSync(file, 'longer again'),
      () => undefined,
    ]
    for (const change of changes) {
      change()
      expect(copy.pass(true).writtenBytes).toBeLessThan(200_000)
      expect(readFileSync(join(target, 'long')).equals(readFileSync(file))).toBe(true)
    }
    truncateSync(file, 10)
    copy.pass(true)
    expect(contents(target)).toEqual(contents(source))
  })

  test('holes stay holes', () => {
    const { source, target } = tree()
    const file = join(source, 'sparse')
    writeFileSync(file, 'begin')
    truncateSync(file, 64 * 1024 * 1024)
    appendFileSync(file, 'end')
    createTreeCopy(source, target).pass(true)
    expect(statSync(join(target, 'sparse')).blocks * 512).toBeLessThan(1024 * 1024)
    expect(readFileSync(join(target, 'sparse')).equals(readFileSync(file))).toBe(true)
  })

  /** The first page of a segment, as Postgres writes it: magic, info, timeline, address. */
  const segment = (address: bigint): Buffer => {
    const content = Buffer.alloc(1024 * 1024, 'x')
    content.writeUInt16LE(0xd118, 0)
    content.writeUInt32LE(1, 4)
    content.writeBigUInt64LE(address, 8)
    return content
  }
  const mebibyte = 1024n * 1024n

  test('WAL segments are omitted while they have no records, and copied once they have records', () => {
    const { source, target } = tree()
    mkdirSync(join(source, 'pg_wal'))
    const [written, recycled, empty] = [
      '000000010000000000000005',
      '000000010000000000000006',
      '000000010000000000000007',
    ]
    const put = (name: string, content: Buffer) => writeFileSync(join(source, 'pg_wal', name), content)
    put(written, segment(5n * mebibyte))
    put(recycled, segment(2n * mebibyte))
    put(empty, Buffer.alloc(1024 * 1024))
    put('00000002.history', Buffer.from('1'))
    const copy = createTreeCopy(source, target)
    copy.pass(false)
    expect(readdirSync(join(target, 'pg_wal')).sort()).toEqual([written, '00000002.history'])
    put(recycled, segment(6n * mebibyte))
    copy.pass(true)
    expect(readdirSync(join(target, 'pg_wal')).sort()).toEqual([written, recycled, '00000002.history'])
    put(written, segment(9n * mebibyte))
    expect(copy.pass(true).bytes).toBe(1024 * 1024 + 1)
    expect(readdirSync(join(target, 'pg_wal')).sort()).toEqual([recycled, '00000002.history'])
  })

  test.each([
    ['its own position', 'd/pg_wal/0000000A0000000300000041', 2n ** 24n, 0x3_4100_0000n, false],
    ['another position', 'd/pg_wal/0000000A0000000300000041', 2n ** 24n, 0x3_4000_0000n, true],
    ['nothing', 'd/pg_wal/0000000A0000000300000041', 2n ** 24n, 0n, true],
    ['a segment of 1 GiB', 'd/pg_wal/000000010000000200000003', 2n ** 30n, 0x2_c000_0000n, false],
    ['a file of another size', 'd/pg_wal/0000000A0000000300000041', 2n ** 24n - 1n, 0n, false],
    ['a file in another directory', 'd/base/0000000A0000000300000041', 2n ** 24n, 0n, false],
    ['a partial segment', 'd/pg_wal/0000000A0000000300000041.partial', 2n ** 24n, 0n, false],
  ])('a segment that begins with a page of %s', (_, path, size, address, isUnwritten) => {
    expect(isUnwrittenSegment(path, size, segment(address).subarray(0, 16))).toBe(isUnwritten)
  })

  /** The number of hot passes, if each pass writes this many MB. */
  const hotPasses = async (...written: number[]) => {
    let passes = 0
    await copyHot({
      pass: async () => {
        const writtenBytes = (written[passes++] ?? 0) * 1024 * 1024
        return { copied: 1, copiedBytes: 1e9, writtenBytes, bytes: 1e9 }
      },
      close: async () => {},
    })
    return passes
  }

  test('hot passes continue while they leave less to write; with shared blocks there is one', async () => {
    expect(await hotPasses(0)).toBe(1)
    expect(await hotPasses(1000, 100, 10, 0)).toBe(3)
    expect(await hotPasses(1000, 600, 100)).toBe(2)
    expect(await hotPasses(6400, 3200, 1600, 800, 400, 200)).toBe(5)
  })

  test('files created and deleted during a hot pass cause no error, and the copy is correct at the end', async () => {
    const { source, target } = tree()
    const copier = await openCopier({ source, target })
    let going = true
    const writer = (async () => {
      for (let n = 0; going; n += 1) {
        writeFileSync(join(source, `f${n % 50}`), `${n}`.repeat(1 + (n % 2000)))
        rmSync(join(source, `f${(n * 7) % 50}`), { force: true })
        if (n % 20 === 0) await new Promise(resolve => setImmediate(resolve))
      }
    })()
    for (let passes = 0; passes < 20; passes += 1) await copier.pass(false)
    going = false
    await writer
    await copier.pass(true)
    await copier.close()
    expect(contents(target)).toEqual(contents(source))
  })

  test('links are copied as links, and never followed', () => {
    const { source, target } = tree()
    const outside = join(source, '../outside')
    writeFileSync(outside, 'private')
    symlinkSync(outside, join(source, 'link'))
    createTreeCopy(source, target).pass(true)
    expect(readlinkSync(join(target, 'link'))).toBe(outside)
  })

  test('one thread copies trees one after another, also after a failure; two trees can be copied at once', async () => {
    const trees = [tree(), tree(), tree()]
    for (const [index, { source }] of trees.entries()) writeFileSync(join(source, 'f'), `${index}`)
    const [one, other] = await Promise.all(trees.slice(0, 2).map(order => openCopier(order)))
    await Promise.all([one?.pass(true), other?.pass(true)])
    await Promise.all([one?.close(), other?.close()])
    await expect(openCopier({ source: '/nowhere', target: '/nowhere/t' })).rejects.toThrow('ENOENT')
    const last = await openCopier(trees[2] as { source: string; target: string })
    await last.pass(true)
    await last.close()
    for (const { source, target } of trees) expect(contents(target)).toEqual(contents(source))
  })

  test('a file that cannot be copied fails the frozen pass, and the thread passes on the error', async () => {
    const { source, target } = tree()
    const copier = await openCopier({ source, target })
    rmSync(source, { recursive: true })
    await copier.pass(false)
    await expect(copier.pass(true)).rejects.toMatchObject({
      code: 'ENOENT',
      message: expect.stringMatching(/^ENOENT: /),
    })
    await copier.close()
    await expect(
      openCopier({ source: '/nowhere', target: `${target}2` }).then(other => other.pass(true)),
    ).rejects.toThrow('ENOENT')
    expect(existsSync(`${target}2`)).toBe(false)
  })

  test.runIf(isRoot)('keeps space for concurrent writers if blocks cannot be shared', () => {
    const disk = temporaryDirectory()
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=100m', 'tmpfs', disk])
    onTestFinished(() => void execFileSync('umount', ['-l', disk]))
    const source = join(disk, 'source')
    mkdirSync(source)
    for (const name of ['a', 'b', 'c']) writeFileSync(join(source, name), Buffer.alloc(12 * 1024 * 1024))
    const copy = createTreeCopy(source, join(disk, 'target'))
    for (const isFrozen of [false, true]) expect(() => copy.pass(isFrozen)).toThrow(/disk is full/)
    const { bavail, bsize } = statfsSync(disk)
    expect(bavail * bsize).toBeGreaterThanOrEqual(64 * 1024 * 1024)
    rmSync(join(source, 'c'))
    rmSync(join(source, 'b'))
    expect(copy.pass(true).bytes).toBe(12 * 1024 * 1024)
  })

  test.runIf(canShareBlocks)(
    'with shared blocks, the last pass copies a file that may have changed once, without a comparison',
    () => {
      const mounted = reflinkDisk()
      const source = join(mounted, 'source')
      mkdirSync(source)
      const long = Buffer.alloc(20 * 1024 * 1024, 'x')
      writeFileSync(join(source, 'a-short'), 'short')
      for (const name of ['old', 'young']) writeFileSync(join(source, name), long)
      const segmentBytes = 16 * 1024 * 1024
      writeFileSync(join(source, 'used'), Buffer.alloc(segmentBytes, 'w'))
      const made = statSync(join(source, 'young')).ctimeMs
      // The test must wait: a file's change time cannot be set.
      while (Date.now() < made + 10_500) execFileSync('sleep', ['0.5'])
      appendFileSync(join(source, 'young'), 'y')
      // Renames the file, as a checkpoint does to recycle a WAL segment.
      renameSync(join(source, 'used'), join(source, 'recycled'))
      const copy = createTreeCopy(source, join(mounted, 'target'))
      expect(copy.pass(false)).toMatchObject({ copiedBytes: 5 + long.length, writtenBytes: 0 })
      expect(copy.pass(true)).toMatchObject({ copiedBytes: long.length + 1 + segmentBytes })
      expect(contents(join(mounted, 'target'))).toEqual(contents(source))
    },
  )
})
