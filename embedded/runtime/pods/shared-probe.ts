/**
 * The probe of WAL (operator/member/pod/wal-probe.ts) asks whether a file system takes a synced write. On
 * one machine many databases stand on the same one, so the answer for one of them is the answer for all. The
 * runtime writes itself to the file systems that its volumes are on: to start a process costs a process as large as this one twenty
 * milliseconds, and a command does not report a full disk for certain.
 */
import { statSync } from 'node:fs'
import { constants, open, statfs } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { roomBytes, walProbeName } from '../../../operator/member/pod/wal-probe.ts'
import { fullDiskCode } from './probes.ts'

/** An exit code; undefined where the probe was cut off. */
type Answer = number | undefined

export type SharedProbes = {
  /**
   * Answers a probe with what one on the same file system has just found, by a write of our own, or by running it. Commands
   * that are no such probe are always run.
   */
  run(command: readonly string[], execute: () => Promise<Answer>): Promise<Answer>
  /** Aborts with the next `alarm`. */
  nextAlarm(): AbortSignal
  /** The disk has just become full: no earlier answer holds any more, and every database is probed at once. */
  alarm(): void
}

/** Less than the probe's period: no database is told the same answer twice. */
const freshMs = 10_000
const patienceMs = 10_000

export function createSharedProbes(options: {
  now: () => number
  /** One on each file system of volumes, that no workload can write to. */
  directories: readonly string[]
  /** How long a write of our own may take before it counts as hanging. */
  patienceMs?: number
  /** The file system that a directory stands on; undefined where that cannot be told. */
  deviceOf?: (directory: string) => number | undefined
  /** Whether its file system takes more. */
  hasRoom?: (directory: string) => Promise<boolean>
}): SharedProbes {
  const { now, directories, deviceOf = readDevice, hasRoom = readRoom } = options
  const passedAt = new Map<number, number>()
  const running = new Map<number, Promise<Answer>>()
  let alarm = new AbortController()
  const own = directories.map(directory => ({
    directory,
    probe: createOwnProbe(join(directory, 'espalier-probe'), options.patienceMs ?? patienceMs, hasRoom),
  }))

  const share = (device: number, probe: () => Promise<Answer>): Promise<Answer> => {
    const begun = now()
    const answer = probe()
      .then(code => {
        // Only what went well stands for a while: a failure is looked into by whoever asks next.
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
 * The same as the command does, in one of this process's own threads: nothing can end it while the disk hangs, so there is never a
 * second one.
 */
function createOwnProbe(
  path: string,
  patienceMs: number,
  hasRoom: (directory: string) => Promise<boolean>,
): () => Promise<Answer> {
  let writing: Promise<void> | undefined
  return async () => {
    if (writing !== undefined) return 1
    const ended = writeSynced(path)
      // Only a hang counts, and a disk that is full.
      .catch(() => {})
      .finally(() => {
        writing = undefined
      })
    writing = ended
    const late = Promise.withResolvers<Answer>()
    const timer = setTimeout(() => late.resolve(1), patienceMs)
    const written = ended.then(() => hasRoom(dirname(path))).then(is => (is ? 0 : fullDiskCode))
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

async function readRoom(directory: string): Promise<boolean> {
  const found = await statfs(directory).catch(() => undefined)
  return found === undefined || found.bavail * found.bsize >= roomBytes
}

function readDevice(directory: string): number | undefined {
  try {
    return statSync(directory).dev
  } catch {
    return undefined
  }
}
