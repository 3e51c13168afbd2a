/**
 * Where tests create the directories of real Postgres servers: in memory, if the machine has enough. Postgres waits for
 * its disk when it is created, stopped or copied. No test simulates a power cut, so no test needs the disk. A benchmark
 * does, and runs on the disk.
 */
import { accessSync, constants, readFileSync, statfsSync } from 'node:fs'
import { freemem, tmpdir } from 'node:os'

const memory = '/dev/shm'
/** A generous limit for the files of concurrent tests, and the memory that their processes also need. */
const neededBytes = 4 * 1024 ** 3
const neededFreeBytes = 2 * neededBytes

/** Whether programs on it can be executed. In a container often not. */
const runsPrograms = (mounts: string): boolean =>
  mounts.split('\n').some(line => {
    const [, at, type, options = ''] = line.split(' ')
    return at === memory && type === 'tmpfs' && !options.split(',').includes('noexec')
  })

function hasMemory(): boolean {
  try {
    accessSync(memory, constants.W_OK)
    const { bavail, bsize } = statfsSync(memory)
    return (
      bavail * bsize > neededBytes && freemem() > neededFreeBytes && runsPrograms(readFileSync('/proc/mounts', 'utf8'))
    )
  } catch {
    return false
  }
}

const { TMPDIR, VITEST } = process.env
/** `TMPDIR` overrides it. */
export const postgresDirectory: string = VITEST !== undefined && TMPDIR === undefined && hasMemory() ? memory : tmpdir()
