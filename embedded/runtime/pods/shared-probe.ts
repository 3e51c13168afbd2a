/**
 * The probe of WAL (operator/member/pod/wal-probe.ts) checks whether a file system completes a synced write. Many
 * databases of one machine share a file system, so one result is valid for all of them. The runtime itself writes to
 * the file systems of its volumes, for two reasons: starting a process takes twenty milliseconds in a process as large
 * as this one, and a command does not reliably report a full disk.
 */
import { statSync } from 'node:fs'
import { constants, open, statfs } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { leastFreeBytes, walProbeName } from '../../../operator/member/pod/wal-probe.ts'
import { fullDiskCode } from './probes.ts'

/** An exit code; undefined if the probe was interrupted. */
type Answer = number | undefined

export type SharedProbes = {
  /**
   * Answers a probe with a recent result for the same file system, with a write of the runtime, or with a run of the
   * command. Other commands always run.
   */
  run(command: readonly string[], execute: () => Promise<Answer>): Promise<Answer>
  /** Returns a signal that aborts at the next `alarm`. */
  nextAlarm(): AbortSignal
  /**
   * Call this when the disk has just become full. Earlier results become invalid, and every database is probed at once.
   */
  alarm(): void
}

/** Less than the probe's period, so no database gets the same result twice. */
const freshMs = 10_000
const timeoutMs = 10_000

export function createSharedProbes(options: {
  now: () => number
  /** One directory on each file system with volumes. No workload can write to these directories. */
  directories: readonly string[]
  /** A write of the runtime that takes longer than this counts as hanging. */
  timeoutMs?: number
  /** The file system of a directory; undefined if unknown. */
  deviceOf?: (directory: string) => number | undefined
  /** Whether the directory's file system accepts more data. */
  hasFreeSpace?: (directory: string) => Promise<boolean>
}): SharedProbes {
  const { now, directories, deviceOf = readDevice, hasFreeSpace = readFreeSpace } = options
  const passedAt = new Map<number, number>()
  const running = new Map<number, Promise<Answer>>()
  let alarm = new AbortController()
  const own = directories.map(directory => ({
    directory,
    probe: createOwnProbe(join(directory, 'espalier-probe'), options.timeoutMs ?? timeoutMs, hasFreeSpace),
  }))

  const share = (device: number, probe: () => Promise<Answer>): Promise<Answer> => {
    const begun = now()
    const answer = probe()
      .then(code => {
        // Only success is cached. After a failure, the next caller probes again.
        if (code === 0) passedAt.set(device, begun)
        return code
      })
      .finally(() => running.delete(device))
    running.set(device, answer)
    return answer
  }

  return {
    run: async (command, execute) => {
      const [, , , name, wal = ''] = command
      const device = name === walProbeName ? deviceOf(wal) : undefined
      if (device === undefined) return execute()
      if (now() - (passedAt.get(device) ?? Number.NEGATIVE_INFINITY) < freshMs) return 0
      return (
        running.get(device) ??
        share(device, own.find(({ directory }) => deviceOf(directory) === device)?.probe ?? execute)
      )
    },
    nextAlarm: () => alarm.signal,
    alarm() {
      passedAt.clear()
      const previous = alarm
      alarm = new AbortController()
      previous.abort()
    },
  }
}

/**
 * Does the same as the command, in a thread of this process. While the disk hangs, this write cannot be stopped, so a
 * second write is never started.
 */
function createOwnProbe(
  path: string,
  timeoutMs: number,
  hasFreeSpace: (directory: string) => Promise<boolean>,
): () => Promise<Answer> {
  let writing: Promise<void> | undefined
  return async () => {
    if (writing !== undefined) return 1
    const ended = writeSynced(path)
      // Only a hang or a full disk is a failure.
      .catch(() => {})
      .finally(() => {
        writing = undefined
      })
    writing = ended
    const late = Promise.withResolvers<Answer>()
    const timer = setTimeout(() => late.resolve(1), timeoutMs)
    const written = ended.then(() => hasFreeSpace(dirname(path))).then(is => (is ? 0 : fullDiskCode))
    const answer = await Promise.race([written, late.promise])
    clearTimeout(timer)
    return answer
  }
}

const zeroes = Buffer.alloc(512)

async function writeSynced(path: string): Promise<void> {
  const file = await open(path, constants.O_WRONLY | constants.O_CREAT | constants.O_NOFOLLOW, 0o600)
  try {
    await file.write(zeroes, 0, zeroes.length, 0)
    await file.sync()
  } finally {
    await file.close()
  }
}

async function readFreeSpace(directory: string): Promise<boolean> {
  const found = await statfs(directory).catch(() => undefined)
  return found === undefined || found.bavail * found.bsize >= leastFreeBytes
}

function readDevice(directory: string): number | undefined {
  try {
    return statSync(directory).dev
  } catch {
    return undefined
  }
}
