/**
 * Where tests put the directories in which a real Postgres runs: in memory where the machine has room for it. Postgres waits for
 * its disk whenever it is made, stopped and copied, and no test pulls the plug, so no test could tell the difference. A benchmark
 * could: it stands on the disk.
 */
import { accessSync, constants, readFileSync, statfsSync } from 'node:fs'
import { freemem, tmpdir } from 'node:os'

const memory = '/dev/shm'
/** What the files of tests that run at once may take, by far; and what the processes of those need besides. */
const neededBytes = 4 * 1024 ** 3
const neededFreeBytes = 2 * neededBytes

/** Whether programs on it can be run: a container's often lets none. */
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
/** `TMPDIR` wins, so that anybody can say otherwise. */
export const postgresDirectory: string = VITEST !== undefined && TMPDIR === undefined && hasMemory() ? memory : tmpdir()
