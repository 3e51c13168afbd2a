/**
 * Where tests put the directories of real Postgres servers: in memory if the machine has enough. Postgres waits for its
 * disk whenever it is created, stopped and copied, and no test simulates a power cut, so no test depends on it. A
 * benchmark does: it runs on the disk.
 */
import { accessSync, constants, readFileSync, statfsSync } from 'node:fs'
import { freemem, tmpdir } from 'node:os'

const memory = '/dev/shm'
/** A generous limit for the files of tests that run at once; and the memory that their processes need besides. */
const neededBytes = 4 * 1024 ** 3
const neededFreeBytes = 2 * neededBytes

/** Whether programs on it can be executed: in a container often not. */
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
