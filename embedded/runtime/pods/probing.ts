/**
 * When a container is probed and what follows. Until the first success a probe looks every few milliseconds, whatever
 * its period says, so that a container is ready as soon as it can be; failures still count once per period only, so
 * that haste makes nothing fail. Looks that a frozen volume may have spoilt do not count.
 */
import type { Container } from './environment.ts'
import { type Probe, type ProbeContext, type ProbeResult, runProbe } from './probes.ts'

export type ProbeTiming = {
  /** Between looks before the first success: those that start a process, and those that only connect. */
  eagerMs: number
  eagerConnectMs: number
  /** After so long without one, at most a look per second. */
  eagerForMs: number
}
export const defaultProbeTiming: ProbeTiming = { eagerMs: 50, eagerConnectMs: 10, eagerForMs: 30_000 }
const patientMs = 1_000

/** How often in a row, and what follows from it. */
type Tally = {
  verdict: 'unknown' | 'success' | 'failure'
  successes: number
  failures: number
  /** When a failure was last counted, ms. */
  countedAt: number | undefined
}
export const noTally: Tally = { verdict: 'unknown', successes: 0, failures: 0, countedAt: undefined }

const periodMs = (probe: Probe): number => (probe.periodSeconds ?? 10) * 1000

/** The tally after one more look. Pure. */
export function count(tally: Tally, probe: Probe, ok: boolean, now: number, isCertain = false): Tally {
  if (ok) {
    const successes = tally.successes + 1
    const verdict = successes >= (probe.successThreshold ?? 1) ? 'success' : tally.verdict
    return { verdict, successes, failures: 0, countedAt: undefined }
  }
  if (isCertain) return { verdict: 'failure', successes: 0, failures: probe.failureThreshold ?? 3, countedAt: now }
  const { countedAt } = tally
  // Half a period's tolerance: a timer that fires a little early is a look of its own.
  const due = countedAt === undefined || now - countedAt >= periodMs(probe) * 0.9
  if (!due) return { ...tally, successes: 0 }
  const failures = tally.failures + 1
  const verdict = failures >= (probe.failureThreshold ?? 3) ? 'failure' : tally.verdict
  return { verdict, successes: 0, failures, countedAt: now }
}

/** Pods are looked at together, a few at a time: to wake up costs more than most looks. */
const turnMs = 5_000

/** How long until the next look; where all is well, at most a turn less than the period. Pure. */
export function waitMs(tally: Tally, probe: Probe, elapsedMs: number, now: number, timing: ProbeTiming): number {
  if (tally.verdict === 'success') return periodMs(probe) - (periodMs(probe) < 2 * turnMs ? 0 : now % turnMs)
  const eagerMs = probe.exec ? timing.eagerMs : timing.eagerConnectMs
  return Math.min(periodMs(probe), elapsedMs < timing.eagerForMs ? eagerMs : patientMs)
}

type ProbingOptions = {
  container: Container
  context: ProbeContext
  timing: ProbeTiming
  /** Aborts when a probe is due at once, whatever its period; absent: never. */
  nextAlarm?: () => AbortSignal
  /** As VolumeUse.epoch of the container's volumes. */
  epoch(): number
  onStarted(): void
  onReady(ready: boolean, message?: string): void
  /** The container must be restarted: its startup or liveness probe failed for good. */
  onUnhealthy(which: 'startup' | 'liveness', message: string): void
  now: () => number
}

/** Probes a running container until the signal aborts. */
export function startProbing(options: ProbingOptions, signal: AbortSignal): void {
  const { container, onStarted, onReady, onUnhealthy } = options
  const { startupProbe, readinessProbe, livenessProbe } = container

  const afterStartup = () => {
    onStarted()
    if (readinessProbe === undefined) onReady(true)
    else void watch(options, readinessProbe, signal, (tally, message) => onReady(tally.verdict === 'success', message))
    if (livenessProbe === undefined) return
    void watch(options, livenessProbe, signal, (tally, message) => {
      if (tally.verdict === 'failure') onUnhealthy('liveness', message ?? '')
    })
  }
  if (startupProbe === undefined) {
    afterStartup()
    return
  }
  const startup = new AbortController()
  void watch(options, startupProbe, AbortSignal.any([signal, startup.signal]), (tally, message) => {
    startup.abort()
    if (tally.verdict === 'failure') onUnhealthy('startup', message ?? '')
    else afterStartup()
  })
}

/** Looks again and again; reports each change of the verdict. */
async function watch(
  { context, timing, epoch, nextAlarm, now }: ProbingOptions,
  probe: Probe,
  signal: AbortSignal,
  onVerdict: (tally: Tally, message: string | undefined) => void,
): Promise<void> {
  const startedAt = now()
  let tally = noTally
  await pause((probe.initialDelaySeconds ?? 0) * 1000, signal)
  while (!signal.aborted) {
    const before = epoch()
    const result: ProbeResult | undefined = before < 0 ? undefined : await runProbe(probe, context)
    if (signal.aborted) return
    if (result !== undefined && epoch() === before) {
      const previous = tally.verdict
      tally = count(tally, probe, result.ok, now(), !result.ok && result.isCertain)
      if (tally.verdict !== previous) onVerdict(tally, result.ok ? undefined : result.message)
    }
    const ms = result === undefined ? timing.eagerMs : waitMs(tally, probe, now() - startedAt, now(), timing)
    await pause(ms, nextAlarm === undefined ? signal : AbortSignal.any([signal, nextAlarm()]))
  }
}

/** Waits; returns early when the signal aborts. */
export function pause(ms: number, signal: AbortSignal): Promise<void> {
  if (ms <= 0 || signal.aborted) return Promise.resolve()
  return new Promise(resolve => {
    const end = () => {
      clearTimeout(timer)
      signal.removeEventListener('abort', end)
      resolve()
    }
    const timer = setTimeout(end, ms)
    signal.addEventListener('abort', end, { once: true })
  })
}
