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
import { compareMarks, type Mark } from './mark.ts'
import { isUnwrittenSegment } from './wal.ts'

const isRoot = process.getuid?.() === 0
const canShareBlocks = isRoot && existsSync('/dev/loop-control') && spawnSync('mkfs.xfs', ['-V']).status === 0

/** All of a tree: kinds, modes, contents, targets of links. */
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
const sharingDisk = (): string => mountDisk('xfs', '400M')

const names = ['a', 'b', 'd/a', 'd/b', 'd/e/a']
type Change = { kind: number; name: string; other: string; text: string }
const change: fc.Arbitrary<Change> = fc.record({
  kind: fc.nat(8),
  name: fc.constantFrom(...names),
  other: fc.constantFrom(...names),
  text: fc.string({ maxLength: 20 }),
})

/** Does something to a tree; what cannot be done is left. */
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
    // no such file, a directory in the way, ...
  }
}

test('an entry is the same only where a change would be sure to show', () => {
  const mark: Mark = { kind: 'file', size: 8n, inode: 7n, modified: 1000n, changed: 2000n }
  expect(compareMarks(undefined, mark)).toBe('changed')
  expect(compareMarks({ mark, certainBefore: 2001n }, mark)).toBe('same')
  expect(compareMarks({ mark, certainBefore: 2000n }, mark)).toBe('uncertain')
  expect(compareMarks({ mark, certainBefore: 1500n }, mark)).toBe('uncertain')
  // A time in the future, after the clock was set back.
  expect(compareMarks({ mark: { ...mark, modified: 9000n }, certainBefore: 5000n }, { ...mark, modified: 9000n })).toBe(
    'uncertain',
  )
  for (const change of [
    { size: 9n },
    { inode: 1n },
    { modified: 1001n },
    { changed: 2001n },
    { kind: 'link' as const },
  ]) {
    expect(compareMarks({ mark, certainBefore: 5000n }, { ...mark, ...change })).toBe('changed')
  }
})

describe('createTreeCopy', () => {
  const whatever = (numRuns: number, place: () => { source: string; target: string }) =>
    fc.assert(
      fc.property(fc.array(fc.array(change, { maxLength: 12 }), { maxLength: 4 }), rounds => {
        const { source, target } = place()
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

  test('whatever happens between the passes, the last one makes the copy the same', () => whatever(80, tree))

  test.runIf(canShareBlocks)('whatever happens between the passes, where blocks are shared as well', () => {
    const disk = sharingDisk()
    let runs = 0
    whatever(80, () => {
      runs += 1
      const [source, target] = [join(disk, `source-${runs}`), join(disk, `target-${runs}`)]
      mkdirSync(source)
      return { source, target }
    })
  })

  test('a change that leaves size and times as they were is not missed', () => {
    const { source, target } = tree()
    for (let index = 0; index < 300; index += 1) writeFileSync(join(source, String(index)), 'before')
    const copy = createTreeCopy(source, target)
    copy.pass(false)
    const changed = Array.from({ length: 300 }, (_, index) => join(source, String(index)))
    for (const path of changed) writeFileSync(path, 'after!')
    copy.pass(false)
    // At once, many of them within the same tick of the file system's clock.
    for (const path of changed) {
      const { atime, mtime } = statSync(path)
      writeFileSync(path, 'later!')
      utimesSync(path, atime, mtime)
    }
    copy.pass(true)
    expect(contents(target)).toEqual(contents(source))
  })

  test('the last pass copies what has changed, and no more', () => {
    const { source, target } = tree()
    for (const name of ['a', 'b', 'c']) writeFileSync(join(source, name), 'x'.repeat(1000))
    const copy = createTreeCopy(source, target)
    expect(copy.pass(false)).toMatchObject({ copied: 4, copiedBytes: 3000, bytes: 3000 })
    appendFileSync(join(source, 'b'), 'y')
    expect(copy.pass(true)).toMatchObject({ copiedBytes: 1001, bytes: 3001 })
  })

  test('of a long file only what has changed is written again, whatever was done to it', () => {
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

  test('segments of WAL that hold nothing are left out, and copied once they hold something', () => {
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
    ['its own place', 'd/pg_wal/0000000A0000000300000041', 2n ** 24n, 0x3_4100_0000n, false],
    ['another place', 'd/pg_wal/0000000A0000000300000041', 2n ** 24n, 0x3_4000_0000n, true],
    ['nothing', 'd/pg_wal/0000000A0000000300000041', 2n ** 24n, 0n, true],
    ['large segments', 'd/pg_wal/000000010000000200000003', 2n ** 30n, 0x2_c000_0000n, false],
    ['a file that is not whole', 'd/pg_wal/0000000A0000000300000041', 2n ** 24n - 1n, 0n, false],
    ['a file of another folder', 'd/base/0000000A0000000300000041', 2n ** 24n, 0n, false],
    ['a partial segment', 'd/pg_wal/0000000A0000000300000041.partial', 2n ** 24n, 0n, false],
  ])('a segment that begins with a page of %s', (_, path, size, address, isUnwritten) => {
    expect(isUnwrittenSegment(path, size, segment(address).subarray(0, 16))).toBe(isUnwritten)
  })

  /** How many hot passes are made where each writes so many MB. */
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

  test('hot passes are made while they leave less to write, and one where blocks are shared', async () => {
    expect(await hotPasses(0)).toBe(1)
    expect(await hotPasses(1000, 100, 10, 0)).toBe(3)
    expect(await hotPasses(1000, 600, 100)).toBe(2)
    expect(await hotPasses(6400, 3200, 1600, 800, 400, 200)).toBe(5)
  })

  test('files that come and go under a hot pass are no error, and are right in the end', async () => {
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

  test('a thread copies one tree after the other, also after one that failed, and two at once', async () => {
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

  test('what cannot be copied is an error when it counts, and the thread passes it on', async () => {
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

  test.runIf(isRoot)('leaves room to whoever writes meanwhile, where nothing can be shared', () => {
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
    'where blocks are shared, a file that may have changed is copied once, by the last pass, and compared with nothing',
    () => {
      const mounted = sharingDisk()
      const source = join(mounted, 'source')
      mkdirSync(source)
      const long = Buffer.alloc(20 * 1024 * 1024, 'x')
      writeFileSync(join(source, 'a-short'), 'short')
      for (const name of ['old', 'young']) writeFileSync(join(source, name), long)
      const segmentBytes = 16 * 1024 * 1024
      writeFileSync(join(source, 'used'), Buffer.alloc(segmentBytes, 'w'))
      const made = statSync(join(source, 'young')).ctimeMs
      // Only a time that has passed makes a file old: nobody can set the time of its last change.
      while (Date.now() < made + 10_500) execFileSync('sleep', ['0.5'])
      appendFileSync(join(source, 'young'), 'y')
      // As a checkpoint recycles a segment of WAL.
      renameSync(join(source, 'used'), join(source, 'recycled'))
      const copy = createTreeCopy(source, join(mounted, 'target'))
      expect(copy.pass(false)).toMatchObject({ copiedBytes: 5 + long.length, writtenBytes: 0 })
      expect(copy.pass(true)).toMatchObject({ copiedBytes: long.length + 1 + segmentBytes })
      expect(contents(join(mounted, 'target'))).toEqual(contents(source))
    },
  )
})
