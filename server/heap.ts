/**
 * V8's heap while a process that was started with the flags for a small one (`bin/lean.mjs`) reads all that it is to keep. By those
 * flags V8 collects after every tenth more, which was more than half of what an operator with 10,000 databases did until it had synced.
 */
import { setFlagsFromString } from 'node:v8'

/** By how much the heap grows between two collections, in per cent: more is faster, and the highest memory is higher. */
const growthPercent = 60
/** What is read sooner is little, and not worth the memory. */
const soonMs = 1_000

/** Has V8 collect less often until then, where that takes long. */
export async function whileFilling(filled: Promise<void>): Promise<void> {
  if (!process.execArgv.includes('--optimize-for-size')) return filled
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
