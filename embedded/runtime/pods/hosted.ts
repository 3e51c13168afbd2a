/**
 * One start of a container without a process. The container is ready while its program runs. Probes are skipped: they
 * check whether a process runs, and this program runs in the runtime's own process. The program writes to a data volume
 * only while no image of the volume is taken, so that no snapshot waits for it.
 */
import { messageOf } from '../errors.ts'
import type { HostedContext, HostedProgram } from '../images/resolver.ts'
import type { ContainerLog } from '../logs/write.ts'
import type { VolumeUse } from '../volumes/use.ts'
import type { ContainerView, Terminated } from './view.ts'

type HostedOptions = {
  view: ContainerView
  changed: () => void
  log: ContainerLog
  now: () => number
  stopping: AbortSignal
  use: VolumeUse
  /** Handles of its pod's volumes. */
  volumes: string[]
}

/** The exit code for a program that cannot be started, as for a process. */
const cannotStart = 128

export async function runHosted(
  { view, changed, log, now, stopping, use, volumes }: HostedOptions,
  {
    start,
    args,
    environment,
  }: Omit<HostedContext, 'log' | 'mayWrite'> & { start: HostedProgram; args: readonly string[] },
): Promise<Terminated> {
  const startedAt = now()
  const ended = (exitCode: number, reason: string, message?: string): Terminated => {
    view.ready = false
    view.started = false
    return { exitCode, signal: undefined, reason, message, startedAt, finishedAt: now() }
  }
  const stream = log.stream()
  try {
    const running = await start(args, {
      log: line => stream.push(Buffer.from(`${line}\n`)),
      environment,
      mayWrite: () => use.epoch(volumes) >= 0,
    })
    view.state = { kind: 'running', startedAt }
    view.started = true
    view.ready = true
    changed()
    const stop = () => void running.stop()
    stopping.addEventListener('abort', stop, { once: true })
    if (stopping.aborted) stop()
    const exitCode = await running.ended
    stopping.removeEventListener('abort', stop)
    return ended(exitCode, exitCode === 0 ? 'Completed' : 'Error')
  } catch (error) {
    return ended(cannotStart, 'StartError', messageOf(error))
  } finally {
    stream.end()
  }
}
