/**
 * Ends processes: sends a signal, waits for the grace period, then kills the complete tree. Resolves only when all of
 * them have ended. A process that survives SIGKILL is an error.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { RuntimeError } from '../errors.ts'
import { processesNow } from './scan.ts'
import { descendantsOf, isAlive, type ProcessIdentity, signal } from './table.ts'

/** How long a killed process may take to end. Only a hung disk needs more than milliseconds. */
const killDeadlineMs = 10_000

/** Waits until all of these have ended. Returns false at the deadline. */
export async function waitUntilEnded(targets: ProcessIdentity[], deadlineMs: number): Promise<boolean> {
  const end = performance.now() + deadlineMs
  for (let wait = 2; targets.some(isAlive); wait = Math.min(wait * 2, 50)) {
    const remainingMs = end - performance.now()
    if (remainingMs <= 0) return false
    await sleep(Math.min(wait, remainingMs))
  }
  return true
}

/**
 * Kills the targets and all their descendants, and repeats until the process table has none. A child that was created
 * between reading the table and the kill is killed in the next round.
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
    await waitUntilEnded([...known.values()], 100)
  }
}

/** Sends each root its signal. After the grace period, kills the rest of the trees. */
export async function endTrees(
  roots: (ProcessIdentity & { stopSignal: NodeJS.Signals })[],
  graceMs: number,
): Promise<void> {
  const tree = descendantsOf(
    await processesNow(),
    roots.map(root => root.pid),
  )
  for (const root of roots) {
    signal(root, 'SIGCONT') // a stopped process handles only SIGKILL
    signal(root, root.stopSignal)
  }
  await waitUntilEnded(roots, graceMs)
  await killTrees([...roots, ...tree])
}
