/**
 * Ending processes for good: ask with a signal, wait out the grace, then kill the whole tree. Resolves only when none
 * of them runs any more; what would not even die of SIGKILL is an error, never passed over.
 */
// @ts-nocheck

import { setTimeout as sleep } from 'node:timers/promises'
import { RuntimeError } from '../errors.ts'
import { processesNow } from './scan.ts'
import { descendantsOf, isAlive, type ProcessIdentity, signal } from './table.ts'

/** How long a killed process may take to disappear; only a hung disk takes longer than milliseconds. */
const killDeadlineMs = 10_000

/** Waits until none of these runs; false when the deadline came first. */
export async function waitUntilGone(targets: ProcessIdentity[], deadlineMs: number): Promise<boolean> {
  const end = performance.now() + deadlineMs
  for (let wait = 2; targets.some(isAlive); wait = Math.min(wait * 2, 50)) {
    const left = end - performance.now()
    if (left <= 0) return false
    await sleep(Math.min(wait, left))
  }
  return true
}

/**
 * Kills the targets and all that descends from them, again until a look at the table finds none: a child born
 * between the look and the kill is met by the next round.
 * @throws RuntimeError `ProcessWouldNotEnd`
 */
export async function killTrees(targets: ProcessIdentity[]): Promise<void> {
  const end = performance.now() + killDeadlineMs
  const known = new Map(targets.map(target => [`${target.pid} ${target.startTime}`, target]))
  for (;;) {
    const alive = [...known.values()].filter(isAlive)
    if (alive.length === 0) return
    const roots = alive.map(target => target.pid)
    for (const child of descendantsOf(await processesNow(), roots)) known.set(`${child.pid} ${child.startTime}`, child)
    for (const target of known.values()) signal(target, 'SIGKILL')
    if (performance.now() > end) {
      throw new RuntimeError('ProcessWouldNotEnd', `processes ${roots.join(', ')} did not end after SIGKILL`)
    }
    await waitUntilGone([...known.values()], 100)
  }
}

/** Asks each root to end with its signal, then, after the grace, kills whatever is left of the trees. */
export async function endTrees(
  roots: (ProcessIdentity & { stopSignal: NodeJS.Signals })[],
  graceMs: number,
): Promise<void> {
  const tree = descendantsOf(
    await processesNow(),
    roots.map(root => root.pid),
  )
  for (const root of roots) {
    signal(root, 'SIGCONT') // a stopped process handles no signal but SIGKILL
    signal(root, root.stopSignal)
  }
  await waitUntilGone(roots, graceMs)
  await killTrees([...roots, ...tree])
}
