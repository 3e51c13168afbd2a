/**
 * Chance that can be had again: numbers that follow from a seed, which is told and can be given (`ESPALIER_SOAK_SEED`). Who draws
 * under a name draws the same each time; what the machine's speed does to a run is not repeated by it.
 */
import { createHash, randomInt } from 'node:crypto'
import { z } from 'zod'

const given = z.coerce
  .number('ESPALIER_SOAK_SEED must be a number')
  .int()
  .optional()
  .parse(process.env.ESPALIER_SOAK_SEED || undefined)
export const seed = given ?? randomInt(2 ** 31)

export type Chance = {
  /** Evenly in between. */
  between(from: number, to: number): number
  of<T>(choices: readonly [T, ...T[]]): T
}

export function createChance(name: string): Chance {
  let count = 0
  /** From 0 up to, and not including, 1. */
  const next = (): number =>
    createHash('sha256').update(`${seed} ${name} ${count++}`).digest().readUInt32LE(0) / 2 ** 32
  return {
    between: (from, to) => from + next() * (to - from),
    of: choices => choices[Math.floor(next() * choices.length)] ?? choices[0],
  }
}
