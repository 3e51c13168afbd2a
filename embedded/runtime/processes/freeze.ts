/**
 * Stops a set of process trees briefly, so that their files on disk are as after a power failure. It stops the roots
 * first, because a stopped postmaster does not fork. Then it stops every descendant in /proc, until no new process
 * appears and every thread is stopped. A process handles a signal between system calls, so no write is in progress
 * then. The processes are continued in every case: by the caller, by the watchdog, at this process's exit, or at the
 * next start of the runtime.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { RuntimeError } from '../errors.ts'
import { descendantsOf, isAlive, isStopped, type ProcessIdentity, readProcesses, signal } from './table.ts'

/**
 * How long processes may take to stop, per attempt. A process that waits for the disk stops only after that, and all
 * other processes are stopped meanwhile. So the first attempts have a short limit. Between two attempts, the processes
 * run for as long as the attempt took.
 */
const stopDeadlinesMs = [250, 500, 1_000, 5_000]

type Freeze = {
  /** The number of stopped processes. */
  processes: number
  /** Continues all of them, children before parents. A second call does nothing. */
  unfreeze(): void
  /** True if the watchdog or another process has continued any of them. Then the copy is unusable. */
  readonly broken: boolean
}

/**
 * @param mostMs after this time, the watchdog continues the processes
 * @throws RuntimeError `FreezeFailed`; then all processes are continued
 */
export async function freezeTrees(roots: ProcessIdentity[], mostMs: number): Promise<Freeze> {
  for (const stopMs of stopDeadlinesMs.slice(0, -1)) {
    try {
      return await freezeOnce(roots, mostMs, stopMs)
    } catch (error) {
      if (!(error instanceof RuntimeError && error.reason === 'FreezeFailed')) throw error
    }
    await sleep(stopMs)
  }
  return freezeOnce(roots, mostMs, stopDeadlinesMs.at(-1) ?? 0)
}

async function freezeOnce(roots: ProcessIdentity[], mostMs: number, stopMs: number): Promise<Freeze> {
  const stopped: ProcessIdentity[] = []
  let over = false
  let brokenOff = false
  const unfreeze = () => {
    if (over) return
    over = true
    clearTimeout(watchdog)
    process.off('exit', unfreeze)
    for (const target of stopped.toReversed()) signal(target, 'SIGCONT')
  }
  const watchdog = setTimeout(() => {
    brokenOff = true
    unfreeze()
  }, mostMs)
  process.on('exit', unfreeze)
  try {
    await stopAll(roots, stopped, stopMs, () => over)
  } catch (error) {
    unfreeze()
    throw error
  }
  return {
    processes: stopped.length,
    unfreeze,
    get broken() {
      return brokenOff || over || stopped.some(target => isAlive(target) && !isStopped(target.pid))
    },
  }
}

async function stopAll(
  roots: ProcessIdentity[],
  stopped: ProcessIdentity[],
  stopMs: number,
  isOver: () => boolean,
): Promise<void> {
  const known = new Set<string>()
  const stop = (target: ProcessIdentity): boolean => {
    const name = `${target.pid} ${target.startTime}`
    if (known.has(name)) return false
    known.add(name)
    stopped.push(target)
    signal(target, 'SIGSTOP')
    return true
  }
  const end = performance.now() + stopMs
  for (const root of roots) stop(root)
  await untilStopped(stopped, end, isOver)
  for (;;) {
    const tree = descendantsOf(
      readProcesses(),
      roots.map(root => root.pid),
    )
    const fresh = tree.filter(entry => stop(entry))
    await untilStopped(stopped, end, isOver)
    if (fresh.length === 0) return
  }
}

async function untilStopped(targets: ProcessIdentity[], end: number, isOver: () => boolean): Promise<void> {
  while (targets.some(target => isAlive(target) && !isStopped(target.pid))) {
    if (performance.now() > end) {
      throw new RuntimeError('FreezeFailed', 'processes did not stop in time')
    }
    if (isOver()) throw new RuntimeError('FreezeFailed', 'stopping the processes took too long')
    await sleep(1)
  }
}
