/**
 * Tunes V8's heap for a process that keeps much data and reads all of it when it starts (`fillingFlags` of
 * `bin/lean.mjs`). A small heap needs a collection after every 10 % of growth. While the process fills its caches,
 * these collections would take more than half of the CPU time of an operator with 10,000 databases.
 */
import { setFlagsFromString } from 'node:v8'

/**
 * The heap growth between two collections while the caches are filled, in per cent. A higher value is faster, but has a
 * higher peak of memory.
 */
const growthPercent = 60
/** If the caches are filled within this time, the higher growth is not worth its memory. */
const soonMs = 1_000

/** Makes V8 keep its heap small. If filling the caches takes long, V8 collects less often until they are filled. */
export async function whileFilling(filled: Promise<void>): Promise<void> {
  // A process that was started without these flags, such as a test runner, is not tuned.
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
