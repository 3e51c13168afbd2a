/**
 * Decides when a container is probed, and handles the results. Until the first success it is probed every few
 * milliseconds, whatever its period, so that it becomes ready as early as possible. Failures still count only once per
 * period, so early probes cause no failure. Probes that a frozen volume may have affected do not count.
 */
import type { Container } from './environment.ts'
import { type Probe, type ProbeContext, type ProbeResult, runProbe } from './probes.ts'

export type ProbeTiming = {
  /** The interval before the first success, for probes that start a process and for probes that only connect. */
  eagerMs: number
  eagerConnectMs: number
  /** After this time without success, the container is probed at most once per second. */
  eagerForMs: number
}
export const defaultProbeTiming: ProbeTiming = { eagerMs: 50, eagerConnectMs: 10, eagerForMs: 30_000 }
const steadyMs = 1_000

/** The consecutive results, and the current state. */
type ProbeState = {
  result: 'unknown' | 'success' | 'failure'
  successes: number
  failures: number
  /** When a failure was last counted, in ms. */
  countedAt: number | undefined
}
export const initialState: ProbeState = { result: 'unknown', successes: 0, failures: 0, countedAt: undefined }

const periodMs = (probe: Probe): number => (probe.periodSeconds ?? 10) * 1000

/** The state after one more probe. Pure. */
export function count(state: ProbeState, probe: Probe, ok: boolean, now: number, isCertain = false): ProbeState {
  if (ok) {
    const successes = state.successes + 1
    const result = successes >= (probe.successThreshold ?? 1) ? 'success' : state.result
    return { result, successes, failures: 0, countedAt: undefined }
  }
  if (isCertain) return { result: 'failure', successes: 0, failures: probe.failureThreshold ?? 3, countedAt: now }
  const { countedAt } = state
  // The tolerance is half a period: a timer that fires slightly early must still count as a separate probe.
  const due = countedAt === undefined || now - countedAt >= periodMs(probe) * 0.9
  if (!due) return { ...state, successes: 0 }
  const failures = state.failures + 1
  const result = failures >= (probe.failureThreshold ?? 3) ? 'failure' : state.result
  return { result, successes: 0, failures, countedAt: now }
}

/** Pods are probed together, a few at a time, because waking up costs more than most probes. */
const groupMs = 5_000

/**
 * The delay until the next probe. For a healthy container it is shorter than the period, by at most one group interval.
 * Pure.
 */
export function waitMs(state: ProbeState, probe: Probe, elapsedMs: number, now: number, timing: ProbeTiming): number {
  if (state.result === 'success') return periodMs(probe) - (periodMs(probe) < 2 * groupMs ? 0 : now % groupMs)
  const eagerMs = probe.exec ? timing.eagerMs : timing.eagerConnectMs
  return Math.min(periodMs(probe), elapsedMs < timing.eagerForMs ? eagerMs : steadyMs)
}

type ProbingOptions = {
  container: Container
  context: ProbeContext
  timing: ProbeTiming
  /** Aborts when a probe must run at once, whatever its period. If absent, this never happens. */
  nextAlarm?: () => AbortSignal
  /** VolumeUse.epoch of the container's volumes. */
  epoch(): number
  onStarted(): void
  onReady(ready: boolean, message?: string): void
  /** Called when the container must be restarted: its startup or liveness probe failed permanently. */
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
    else void watch(options, readinessProbe, signal, (state, message) => onReady(state.result === 'success', message))
    if (livenessProbe === undefined) return
    void watch(options, livenessProbe, signal, (state, message) => {
      if (state.result === 'failure') onUnhealthy('liveness', message ?? '')
    })
  }
  if (startupProbe === undefined) {
    afterStartup()
    return
  }
  const startup = new AbortController()
  void watch(options, startupProbe, AbortSignal.any([signal, startup.signal]), (state, message) => {
    startup.abort()
    if (state.result === 'failure') onUnhealthy('startup', message ?? '')
    else afterStartup()
  })
}

/** Probes repeatedly; reports each change of the result. */
async function watch(
  { context, timing, epoch, nextAlarm, now }: ProbingOptions,
  probe: Probe,
  signal: AbortSignal,
  onChange: (state: ProbeState, message: string | undefined) => void,
): Promise<void> {
  const startedAt = now()
  let state = initialState
  await pause((probe.initialDelaySeconds ?? 0) * 1000, signal)
  while (!signal.aborted) {
    const before = epoch()
    const result: ProbeResult | undefined = before < 0 ? undefined : await runProbe(probe, context)
    if (signal.aborted) return
    if (result !== undefined && epoch() === before) {
      const previous = state.result
      state = count(state, probe, result.ok, now(), !result.ok && result.isCertain)
      if (state.result !== previous) onChange(state, result.ok ? undefined : result.message)
    }
    const ms = result === undefined ? timing.eagerMs : waitMs(state, probe, now() - startedAt, now(), timing)
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
