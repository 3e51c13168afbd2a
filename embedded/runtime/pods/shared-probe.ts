/**
 * The probe of WAL (operator/managed-database/children/wal-probe.ts) asks whether a file system takes a synced write. On
 * one machine many databases stand on the same one, so the answer for one of them is the answer for all: as few processes
 * are started for a hundred databases as for one.
 */
import { statSync } from 'node:fs'
import { walProbeName } from '../../../operator/managed-database/children/wal-probe.ts'

/** An exit code; undefined where the probe was cut off. */
type Answer = number | undefined

export type SharedProbes = {
  /**
   * Runs a probe by `execute`, or answers for it with what another one on the same file system has just found. Commands
   * that are no such probe are always run.
   */
  run(command: readonly string[], execute: () => Promise<Answer>): Promise<Answer>
}

/** Less than the probe's period: no database is told the same answer twice. */
const freshMs = 10_000

export function createSharedProbes(options: {
  now: () => number
  /** The file system that a directory stands on; undefined where that cannot be told. */
  deviceOf?: (directory: string) => number | undefined
}): SharedProbes {
  const { now, deviceOf = readDevice } = options
  const passedAt = new Map<number, number>()
  const running = new Map<number, Promise<Answer>>()

  const share = (device: number, execute: () => Promise<Answer>): Promise<Answer> => {
    const begun = now()
    const answer = execute()
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
      const [, , , name, directory = ''] = command
      const device = name === walProbeName ? deviceOf(directory) : undefined
      if (device === undefined) return execute()
      const isFresh = now() - (passedAt.get(device) ?? Number.NEGATIVE_INFINITY) < freshMs
      return isFresh ? 0 : (running.get(device) ?? share(device, execute))
    },
  }
}

function readDevice(directory: string): number | undefined {
  try {
    return statSync(directory).dev
  } catch {
    return undefined
  }
}
