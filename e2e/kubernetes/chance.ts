/**
 * Reproducible random numbers, derived from a seed that is logged and can be set (`ESPALIER_SOAK_SEED`). Each name
 * always has the same sequence. Effects of the machine's speed are not reproduced.
 */
import { createHash, randomInt } from 'node:crypto'
import { z } from 'zod'

const seedVariable = z.coerce
  .number('ESPALIER_SOAK_SEED must be a number')
  .int()
  .optional()
  .parse(process.env.ESPALIER_SOAK_SEED || undefined)
export const seed = seedVariable ?? randomInt(2 ** 31)

export type Chance = {
  /** A number between both values, uniformly distributed. */
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
