/**
 * V8's heap in a process that keeps much, and reads all of it when it starts (`fillingFlags` of `bin/lean.mjs`). A
 * small heap needs a collection after every 10 % of growth; while the process fills its caches, that would take more
 * than half of the CPU time of an operator with 10,000 databases.
 */
import { setFlagsFromString } from 'node:v8'

/**
 * The heap growth between two collections while it fills, in per cent: a higher value is faster, with a higher peak
 * memory.
 */
const growthPercent = 60
/** Little is read before, so it is not worth the memory. */
const soonMs = 1_000

/** Makes V8 keep its heap small, and collect less often until the caches are filled, if that takes long. */
export async function whileFilling(filled: Promise<void>): Promise<void> {
  // A process started without these flags, such as a test runner, is not tuned.
  if (!process.execArgv.some(flag => flag.startsWith('--max-semi-space-size='))) return filled
  setFlagsFromString('--optimize-for-size')
  let isHurried = false
  const hurry = setTimeout(() => {
    isHurried = true
    setFlagsFromString('--no-optimize-for-size')
    setFlagsFromString(`--heap-growing-percent=${growthPercent}`)
  }, soonMs)
  try {
    await filled
  } finally {
    clearTimeout(hurry)
    if (isHurried) setFlagsFromString('--heap-growing-percent=0')
    if (isHurried) setFlagsFromString('--optimize-for-size')
  }
}
