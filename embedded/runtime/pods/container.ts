/**
 * Runs one container through all its starts: prepare, launch, probe, wait for its end, clean up, and repeat with
 * growing delays as the pod's policy says. It owns the container's view and calls `changed` after each change.
 */
import type { Logger } from 'pino'
import type { Owner } from '../directories.ts'
import { messageOf, RuntimeError, type RuntimeErrorReason } from '../errors.ts'
import type { HostedProgram } from '../images/resolver.ts'
import type { ContainerLog } from '../logs/write.ts'
import { endTrees, killTrees } from '../processes/end.ts'
import { type Exit, type Launched, launch } from '../processes/launch.ts'
import { findOwned, processesNow } from '../processes/scan.ts'
import { descendantsOf } from '../processes/table.ts'
import type { VolumeUse } from '../volumes/use.ts'
import { type BackoffLimits, nextWait } from './backoff.ts'
import type { Container } from './environment.ts'
import { runHosted } from './hosted.ts'
import { type ProbeTiming, pause, startProbing } from './probing.ts'
import type { SharedProbes } from './shared-probe.ts'
import { forgetTerminationMessage, terminationMessage } from './termination.ts'
import type { ContainerView, Terminated } from './view.ts'

/** All inputs of a start, computed again for each start. */
export type Preparation = {
  command: [string, ...string[]]
  /** The program runs inside the runtime's process, without a separate process. */
  hosted?: { start: HostedProgram; args: string[] }
  environment: ReadonlyMap<string, string>
  workingDirectory: string
  stopSignal: NodeJS.Signals
  translate: (text: string) => string
}

export type ContainerOptions = {
  container: Container
  view: ContainerView
  changed: () => void
  podIp: string
  /** @throws RuntimeError if an object that the container needs is missing */
  prepare(): Promise<Preparation>
  /** Resolves when a new attempt to prepare may succeed. */
  nextWake(): Promise<void>
  shouldRestart(exitCode: number): boolean
  graceMs(): number
  /** Volumes that the container may write to, with the directories of those that no other pod uses. */
  volumes: string[]
  exclusiveDirectories: string[]
  /** `NAME=value`, which the environment of all its processes contains. */
  marker: string
  terminationFile: string
  log: ContainerLog
  logDirectory: string
  warn(reason: string, message: string): void
  use: VolumeUse
  records: string
  owner: Owner | undefined
  backoff: BackoffLimits
  probeTiming: ProbeTiming
  sharedProbes: SharedProbes
  logger: Logger
  now: () => number
}

const waitingReasons: Partial<Record<RuntimeErrorReason, string>> = {
  ImageNotFound: 'ErrImagePull',
  ImageFamilyGone: 'ErrImagePull',
  ReferenceMissing: 'CreateContainerConfigError',
  Unsupported: 'CreateContainerConfigError',
}
/** How often, and for how long each time, the container waits for output after its last process has ended. */
const drainRounds = 10
const drainMs = 50

/** Runs the container until it has ended permanently, or `stopping` aborts and its processes have ended. */
export async function superviseContainer(options: ContainerOptions, stopping: AbortSignal): Promise<void> {
  const { view, changed, backoff } = options
  let waits = { waits: 0 }
  while (!stopping.aborted) {
    const preparation = await prepareUntilPossible(options, stopping)
    if (preparation === undefined) return
    const { hosted } = preparation
    const ended = await (hosted
      ? runHosted({ ...options, stopping }, { ...hosted, environment: preparation.environment })
      : runOnce(options, preparation, stopping))
    view.state = { kind: 'terminated', ...ended }
    changed()
    if (stopping.aborted || !options.shouldRestart(ended.exitCode)) return
    const next = nextWait(waits, ended.finishedAt - ended.startedAt, backoff)
    waits = next.state
    view.last = ended
    view.restarts += 1
    if (next.waitMs === 0) continue
    const message = `back-off ${Math.round(next.waitMs / 1000)}s restarting failed container ${view.name}`
    view.state = { kind: 'waiting', reason: 'CrashLoopBackOff', message }
    changed()
    options.warn('BackOff', message)
    await pause(next.waitMs, stopping)
  }
}

async function prepareUntilPossible(
  options: ContainerOptions,
  stopping: AbortSignal,
): Promise<Preparation | undefined> {
  const { view, changed } = options
  for (let attempt = 0; !stopping.aborted; attempt += 1) {
    const woken = options.nextWake()
    try {
      return await options.prepare()
    } catch (error) {
      const reason = error instanceof RuntimeError ? waitingReasons[error.reason] : undefined
      const message = messageOf(error)
      view.state = { kind: 'waiting', reason: reason ?? 'CreateContainerError', message }
      changed()
      options.warn('Failed', message)
    }
    const wake = new AbortController()
    void woken.then(() => wake.abort())
    await pause(Math.min(1000 * 2 ** attempt, 60_000), AbortSignal.any([stopping, wake.signal]))
  }
  return undefined
}

async function runOnce(
  options: ContainerOptions,
  preparation: Preparation,
  stopping: AbortSignal,
): Promise<Terminated> {
  const { view, changed, use, volumes, log, now } = options
  const streams = { stdout: log.stream(), stderr: log.stream() }
  forgetTerminationMessage(options.terminationFile)
  const launched = await use.start(volumes, () => launch(launchOptions(options, preparation, streams)))
  const startedAt = now()
  // A container that failed to start has no process, so its end is reported at once.
  if (launched.pid > 0) {
    view.state = { kind: 'running', startedAt }
    changed()
  }
  const over = new AbortController()
  const end = () => void endGently(options, launched)
  stopping.addEventListener('abort', end, { once: true })
  if (stopping.aborted) end()
  if (launched.pid > 0) probe(options, preparation, launched, over.signal)

  const exit = await launched.exited
  over.abort()
  stopping.removeEventListener('abort', end)
  view.ready = false
  view.started = false
  await endOrphans(options, launched)
  await lastOutput(launched)
  launched.close()
  streams.stdout.end()
  streams.stderr.end()
  use.ended(volumes, launched)
  return terminatedOf(options, exit, startedAt, await terminationMessage(options, exit))
}

/**
 * Many short waits instead of one long wait. If this process was delayed, it reads the output that arrived between two
 * waits.
 */
async function lastOutput({ drained }: Launched): Promise<void> {
  const over = new AbortController()
  void drained.then(() => over.abort())
  for (let round = 0; round < drainRounds; round += 1) await pause(drainMs, over.signal)
}

const launchOptions = (
  { owner, records }: ContainerOptions,
  { command, environment, workingDirectory, stopSignal }: Preparation,
  streams: Record<'stdout' | 'stderr', { push(chunk: Buffer): boolean }>,
) => ({
  command,
  environment,
  workingDirectory,
  owner,
  records,
  stopSignal,
  onOutput: {
    stdout: (chunk: Buffer) => streams.stdout.push(chunk),
    stderr: (chunk: Buffer) => streams.stderr.push(chunk),
  },
})

async function endGently(options: ContainerOptions, launched: Launched): Promise<void> {
  await options.use.whenReleased(options.volumes) // a signal during a snapshot would continue the stopped process
  if (launched.pid === 0) return
  try {
    await endTrees([launched], options.graceMs())
  } catch (error) {
    options.logger.error({ err: error, container: options.container.name }, 'a container does not end')
  }
}

/**
 * Kills processes that outlived the container's main process, but not those of other containers on the same volumes.
 * Returns only when they have ended, because they use the volumes until then.
 */
async function endOrphans(options: ContainerOptions, launched: Launched): Promise<void> {
  if (launched.pid === 0) return
  for (;;) {
    const found = await findOwned({ marker: options.marker, directories: options.exclusiveDirectories })
    if (found.length === 0) return
    const others = options.use.writers(options.volumes).flatMap(writer => (writer === launched ? [] : [writer.pid]))
    const spared = new Set([...others, ...descendantsOf(await processesNow(), others).map(entry => entry.pid)])
    const orphans = found.filter(entry => !spared.has(entry.pid))
    if (orphans.length === 0) return
    try {
      await killTrees(orphans)
    } catch (error) {
      options.logger.error(
        { err: error, container: options.container.name },
        'processes that outlived their container do not end',
      )
    }
  }
}

function probe(options: ContainerOptions, preparation: Preparation, launched: Launched, over: AbortSignal): void {
  const { container, view, changed, use, volumes } = options
  startProbing(
    {
      container,
      context: {
        podIp: options.podIp,
        ports: container.ports ?? [],
        execute: (command, timeoutMs) => executeProbe(options, preparation, command, timeoutMs),
      },
      timing: options.probeTiming,
      nextAlarm: options.sharedProbes.nextAlarm,
      epoch: () => use.epoch(volumes),
      onStarted() {
        view.started = true
        changed()
      },
      onReady(ready, message) {
        view.ready = ready
        if (message !== undefined) options.warn('Unhealthy', `readiness probe failed: ${message}`)
        changed()
      },
      onUnhealthy(which, message) {
        options.warn('Unhealthy', `${which} probe failed, container ${container.name} is restarted: ${message}`)
        void endGently(options, launched)
      },
      now: options.now,
    },
    over,
  )
}

async function executeProbe(
  options: ContainerOptions,
  prepared: Preparation,
  command: string[],
  timeoutMs: number,
): Promise<number | undefined> {
  const [program, ...args] = command.map(prepared.translate)
  if (program === undefined) return undefined
  return options.sharedProbes.run([program, ...args], () =>
    executeNow(options, prepared, [program, ...args], timeoutMs),
  )
}

async function executeNow(
  options: ContainerOptions,
  prepared: Preparation,
  command: [string, ...string[]],
  timeoutMs: number,
): Promise<number | undefined> {
  const ignored = { push: () => true }
  const preparation: Preparation = { ...prepared, command }
  const { use, volumes } = options
  const launched = await use.start(volumes, () =>
    launch(launchOptions(options, preparation, { stdout: ignored, stderr: ignored })),
  )
  let timedOut = false
  const timer = setTimeout(() => {
    timedOut = true
    void killTrees([launched]).catch(() => {})
  }, timeoutMs)
  const { exitCode } = await launched.exited
  clearTimeout(timer)
  launched.close()
  use.ended(volumes, launched)
  return timedOut ? undefined : exitCode
}

function terminatedOf(
  { now }: ContainerOptions,
  { exitCode, signal, error }: Exit,
  startedAt: number,
  message: string | undefined,
): Terminated {
  const reason = error !== undefined ? 'StartError' : exitCode === 0 ? 'Completed' : 'Error'
  return { exitCode, signal, reason, message, startedAt, finishedAt: now() }
}
