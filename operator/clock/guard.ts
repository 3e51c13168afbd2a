/**
 * Prevents irreversible operations with a wrong clock. Every deletion by age first calls `distrust`, and is skipped if
 * that returns a reason. A ConfigMap of the operator stores the last reading, so a wrong clock is not trusted after a
 * restart. An administrator who knows that the clock is right can delete that ConfigMap.
 */

import type { Logger } from 'pino'
import { Gauge } from 'prom-client'
import { z } from 'zod'
import type { Cluster, ConfigMap } from '../../cluster/index.ts'
import { type Clock, sleep, systemClock } from '../../cluster/informer/index.ts'
import type { Metrics } from '../../controller/index.ts'
import { labels, managedByEspalier, systemNamespace } from '../../crds/index.ts'
import { assess, type ClockReading, type ClockRecord } from './trust.ts'

export type ClockGuard = {
  /** Why the operator may delete nothing by age now. Undefined if the clock is trusted. */
  distrust(): string | undefined
  /** Called when the clock becomes trusted or untrusted. @returns a function that unsubscribes */
  onChange(handler: () => void): () => void
}

type GuardOptions = {
  cluster: Cluster
  read: () => ClockReading
  logger: Logger
  metrics: Metrics
  /** The monotonic clock for the checks. */
  timer?: Clock
}

export const clockRecordName = 'espalier-clock'
const key = { namespace: systemNamespace, name: clockRecordName }
const checkMs = 60_000
/** How often the guard stores the reading while the clock is trusted. */
const writeMs = 10 * 60_000
const notCompared = 'the clock has not been compared with the stored reading yet'

const record = z.object({
  wall: z.number(),
  elapsed: z.number().min(0),
  boot: z.string().max(100),
  offset: z.number(),
  waitMs: z.number().min(0),
})

function parsed({ data }: ConfigMap): ClockRecord | undefined {
  try {
    return record.safeParse(JSON.parse(data?.record ?? '')).data
  } catch {
    return undefined
  }
}

const gaugeName = 'espalier_clock_doubtful'

/** `run` checks the clock until the signal aborts. */
export function createClockGuard(options: GuardOptions): ClockGuard & { run(signal: AbortSignal): Promise<void> } {
  const { cluster, read, logger, metrics, timer = systemClock } = options
  const handlers = new Set<() => void>()
  let last: ClockRecord | undefined
  let isLoaded = false
  let state: 'unknown' | 'trusted' | 'doubtful' = 'unknown'
  let writtenAt: number | undefined

  new Gauge({
    name: gaugeName,
    help: "1 while nothing is deleted by age, because the clock was set or differs from the API server's",
    registers: [metrics.registry],
    collect() {
      this.set(state === 'doubtful' ? 1 : 0)
    },
  })

  const currentDistrust = (): string | undefined => {
    if (!isLoaded) return notCompared
    const { record, distrust } = assess(last, read())
    last = record
    return distrust
  }

  const load = async () => {
    const found = await cluster.get('ConfigMap', key)
    last = found && parsed(found)
    isLoaded = true
  }

  /** If an administrator deletes the record meanwhile, the clock counts as right. */
  const write = async () => {
    const found = await cluster.get('ConfigMap', key)
    if (found === undefined && writtenAt !== undefined && last !== undefined) last = { ...last, offset: 0, waitMs: 0 }
    const data = { record: JSON.stringify(last) }
    if (found !== undefined) await cluster.replace('ConfigMap', { ...found, data })
    else
      await cluster.create('ConfigMap', {
        apiVersion: 'v1',
        kind: 'ConfigMap',
        metadata: { ...key, labels: { [labels.managedBy]: managedByEspalier } },
        data,
      })
    writtenAt = timer.now()
  }

  const check = async () => {
    if (!isLoaded) await load()
    if (currentDistrust() !== undefined || writtenAt === undefined || timer.now() >= writtenAt + writeMs) await write()
    const distrust = currentDistrust()
    const next = distrust === undefined ? 'trusted' : 'doubtful'
    if (next === state) return
    if (distrust !== undefined)
      logger.warn({ why: distrust }, 'the operator deletes nothing by age, because the clock is not trusted')
    else if (state === 'doubtful') logger.info('the clock is trusted again')
    state = next
    for (const handler of handlers) handler()
  }

  return {
    distrust: currentDistrust,
    onChange: handler => {
      handlers.add(handler)
      return () => void handlers.delete(handler)
    },
    run: async signal => {
      while (!signal.aborted) {
        await check().catch(error => {
          if (!signal.aborted) logger.warn({ err: error }, 'the clock could not be compared or stored')
        })
        await sleep(timer, checkMs, signal)
      }
      metrics.registry.removeSingleMetric(gaugeName)
    },
  }
}
