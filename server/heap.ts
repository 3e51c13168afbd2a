/**
 * V8's heap in a process that keeps much, and reads all of it when it starts (`fillingFlags` of `bin/lean.mjs`). It is to be small, so
 * V8 collects after every tenth more; but while it fills, that would be more than half of what an operator with 10,000 databases does.
 */
import { setFlagsFromString } from 'node:v8'

/** By how much the heap grows between two collections while it fills, in per cent: more is faster, and the highest memory is higher. */
const growthPercent = 60
/** What is read sooner is little, and not worth the memory. */
const soonMs = 1_000

/** Has V8 keep its heap small, and collect less often until then, where that takes long. */
export async function whileFilling(filled: Promise<void>): Promise<void> {
  // A process that was started without, such as one that runs tests, is none of ours to tune.
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
