/** Runs the probe as the kubelet does, on a healthy, full, missing and frozen file system. */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, describe, expect, test } from 'vitest'
import { walProbeCommand } from './wal-probe.ts'

const cleanups: (() => void)[] = []
afterEach(() => {
  for (const cleanup of cleanups.splice(0).toReversed()) cleanup()
})

function directories() {
  const root = mkdtempSync(join(tmpdir(), 'espalier-wal-probe-'))
  cleanups.push(() => rmSync(root, { recursive: true, force: true }))
  const wal = join(root, 'pg_wal')
  mkdirSync(wal)
  return { root, wal, lock: join(root, 'lock') }
}

function start(wal: string, lock: string): ChildProcess {
  const [command = '', ...args] = walProbeCommand(wal, lock)
  return spawn(command, args, { stdio: 'ignore' })
}

async function probe(wal: string, lock: string): Promise<{ code: number; tookMs: number }> {
  const began = performance.now()
  const [code] = await once(start(wal, lock), 'exit')
  return { code, tookMs: performance.now() - began }
}

/** A process that holds the lock, like a write that has not ended. */
async function takeLock(lock: string): Promise<() => Promise<unknown>> {
  const holder = spawn('flock', [lock, 'sh', '-c', 'echo held; exec sleep 60'], {
    stdio: ['ignore', 'pipe', 'ignore'],
    detached: true,
  })
  const release = () => void process.kill(-(holder.pid ?? 0), 'SIGKILL')
  const ended = once(holder, 'exit')
  await once(holder.stdout, 'data')
  return () => {
    release()
    return ended
  }
}

describe('the WAL probe', () => {
  test('writes 512 bytes to one file each time, and leaves no other file', async () => {
    const { wal, lock } = directories()
    for (let count = 0; count < 3; count++) expect((await probe(wal, lock)).code).toBe(0)
    expect(readdirSync(wal)).toEqual(['espalier-probe'])
    expect(statSync(join(wal, 'espalier-probe')).size).toBe(512)
  })

  test('passes if the write fails for another reason than a hang or a full disk', async () => {
    const { wal, lock } = directories()
    expect((await probe(join(wal, 'gone'), lock)).code).toBe(0)
    mkdirSync(join(wal, 'espalier-probe'))
    expect((await probe(wal, lock)).code).toBe(0)
  })

  test('fails at once while the previous write has not ended, and starts no second write', async () => {
    const { wal, lock } = directories()
    const release = await takeLock(lock)
    for (let count = 0; count < 2; count++) {
      const { code, tookMs } = await probe(wal, lock)
      expect(code).toBe(1)
      expect(tookMs).toBeLessThan(5_000)
    }
    expect(existsSync(join(wal, 'espalier-probe'))).toBe(false)
    await release()
    await expect.poll(async () => (await probe(wal, lock)).code, { timeout: 5_000 }).toBe(0)
  })

  test('fails ten seconds into a write that hangs, ends by itself, and passes after the write ends', async () => {
    const { wal, lock } = directories()
    // A pipe without a reader: a process that opens it for writing waits until a reader opens it.
    const pipe = join(wal, 'espalier-probe')
    expect(spawnSync('mkfifo', [pipe]).status).toBe(0)
    const { code, tookMs } = await probe(wal, lock)
    expect(code).toBe(1)
    expect(tookMs).toBeGreaterThan(9_000)
    expect((await probe(wal, lock)).code).toBe(1)
    const reader = spawn('cat', [pipe], { stdio: 'ignore' })
    await once(reader, 'exit')
    rmSync(pipe)
    await expect.poll(async () => (await probe(wal, lock)).code, { timeout: 5_000 }).toBe(0)
  }, 40_000)

  test('fails while the file system is full, and passes after that', async () => {
    const { root, lock } = directories()
    const mounted = join(root, 'mounted')
    if (!mountLoop(root, mounted)) {
      console.log('not tested here: a full file system needs root and loop devices')
      return
    }
    expect((await probe(mounted, lock)).code).toBe(0)
    const ballast = join(mounted, 'ballast')
    expect(spawnSync('dd', ['if=/dev/zero', `of=${ballast}`, 'bs=64k']).status).toBe(1)
    expect((await probe(mounted, lock)).code).toBe(1)
    rmSync(ballast)
    expect((await probe(mounted, lock)).code).toBe(0)
  })

  test('fails while the file system is frozen, and passes after that', async () => {
    const { root, lock } = directories()
    const mounted = join(root, 'mounted')
    if (!mountLoop(root, mounted)) {
      console.log('not tested here: a frozen file system needs root, loop devices and fsfreeze')
      return
    }
    expect((await probe(mounted, lock)).code).toBe(0)
    expect(spawnSync('fsfreeze', ['-f', mounted]).status).toBe(0)
    const unfreeze = () => spawnSync('fsfreeze', ['-u', mounted])
    cleanups.push(unfreeze)
    expect((await probe(mounted, lock)).code).toBe(1)
    expect((await probe(mounted, lock)).tookMs).toBeLessThan(5_000)
    unfreeze()
    await expect.poll(async () => (await probe(mounted, lock)).code, { timeout: 5_000 }).toBe(0)
  }, 40_000)
})

/** Mounts a file system from a file. Returns false if it cannot be created. */
function mountLoop(root: string, directory: string): boolean {
  const image = join(root, 'image')
  writeFileSync(image, Buffer.alloc(16 * 2 ** 20))
  mkdirSync(directory)
  if (spawnSync('mkfs.ext4', ['-q', '-F', image]).status !== 0) return false
  if (spawnSync('mount', ['-o', 'loop', image, directory]).status !== 0) return false
  cleanups.push(() => spawnSync('umount', [directory]))
  return true
}
