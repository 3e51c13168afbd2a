/**
 * Events that a user reads with `kubectl describe`. Recording one returns at once and never throws; writing is done behind
 * it, one request at a time. The same object, reason and message is one Event whose count grows; an object that causes too
 * many loses the surplus; what cannot be written is dropped and counted. A message never carries a password: what looks
 * like one is struck out.
 */
// @ts-nocheck

import { randomBytes } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import type { Logger } from 'pino'
import { type AnyObject, type Cluster, type Event, isClusterError } from '../cluster/index.ts'
import { backoffMs, type Clock, sleep, systemClock } from '../cluster/informer/index.ts'
import { TokenBuckets } from '../server/token-bucket.ts'
import { timestamp } from '../values/time.ts'
import type { Metrics } from './metrics.ts'

export type EventRecorder = {
  /** `reason` in UpperCamelCase, `message` a sentence; cut at 1,024 bytes, which is Kubernetes' limit. */
  record(subject: AnyObject, type: 'Normal' | 'Warning', reason: string, message: string): void
  /** Writes what is waiting, for at most 2 s; nothing is recorded from then on. */
  stop(): Promise<void>
}

/** One Event: `count` as recorded, `written` as the cluster has it. */
type Series = {
  readonly subject: Event['involvedObject'] & { name: string }
  readonly type: 'Normal' | 'Warning'
  readonly reason: string
  readonly message: string
  readonly firstAt: number
  lastAt: number
  count: number
  written: Event | undefined
  waiting: boolean
}

const messageBytes = 1024
const reasonLength = 128
const maximumSeries = 4096
const attempts = 3
const retry = { minimumMs: 200, maximumMs: 2_000 }
const flushMs = 2_000
/** client-go's: 25 at once for one object, then one in five minutes. */
const defaultRate = { perSecond: 1 / 300, burst: 25 }

/** Cuts at a whole character, at most `bytes` long in UTF-8. */
export function truncateUtf8(text: string, bytes: number): string {
  const encoded = Buffer.from(text)
  if (encoded.length <= bytes) return text
  let end = bytes - 3
  while (end > 0 && ((encoded[end] ?? 0) & 0xc0) === 0x80) end--
  return `${encoded.subarray(0, end).toString()}…`
}

/** Strikes out what looks like a secret: URI user information, `password=`-like pairs, bearer tokens, PEM private keys. */
export function withoutSecrets(text: string): string {
  return text
    .replace(/-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)/g, '[private key]')
    .replace(/(\b[a-z][a-z0-9+.-]{0,30}:\/\/)[^\s/@]*@/gi, '$1***@')
    .replace(/\b(password|passwd|pwd|secret|token|api[_-]?key)(["']?\s*[=:]\s*)("[^"]*"|'[^']*'|[^\s,;]+)/gi, '$1$2***')
    .replace(/\b(bearer)\s+[\w.~+/=-]+/gi, '$1 ***')
}

/** Of a cache that forgets what was unused for longest. */
function remembered<T extends object>(cache: LRUCache<string, T>, key: string, make: () => T): T {
  const value = cache.get(key) ?? make()
  cache.set(key, value)
  return value
}

const referenceTo = ({ apiVersion, kind, metadata }: AnyObject): Series['subject'] => ({
  apiVersion,
  kind,
  name: metadata.name,
  ...(metadata.namespace && { namespace: metadata.namespace }),
  ...(metadata.uid && { uid: metadata.uid }),
  ...(metadata.resourceVersion && { resourceVersion: metadata.resourceVersion }),
})

export function createEventRecorder(options: {
  cluster: Cluster
  /** Who reports, such as `espalier-operator`, and which process of it. */
  component: string
  instance: string
  logger: Logger
  metrics?: Metrics | undefined
  rate?: { perSecond: number; burst: number }
  clock?: Clock
}): EventRecorder {
  const { cluster, component, instance, logger, metrics, rate = defaultRate, clock = systemClock } = options
  const allSeries = new LRUCache<string, Series>({ max: maximumSeries })
  const buckets = new TokenBuckets(clock.now, rate, maximumSeries)
  const waiting: Series[] = []
  const stopping = new AbortController()
  let stopped = false
  let writing: Promise<void> | undefined

  const draft = ({ subject, type, reason, message, firstAt, lastAt, count }: Series): Event => {
    return {
      apiVersion: 'v1',
      kind: 'Event',
      metadata: {
        name: `${subject.name.slice(0, 230)}.${randomBytes(8).toString('hex')}`,
        // Events on cluster-scoped objects belong here; the API server accepts no other namespace.
        namespace: subject.namespace ?? 'default',
      },
      involvedObject: subject,
      type,
      reason,
      message,
      count,
      firstTimestamp: timestamp(firstAt),
      lastTimestamp: timestamp(lastAt),
      source: { component },
      reportingComponent: component,
      reportingInstance: instance,
    }
  }

  const write = async (series: Series): Promise<void> => {
    const { written, count, lastAt } = series
    try {
      series.written = written
        ? await cluster.replace('Event', { ...written, count, lastTimestamp: timestamp(lastAt) })
        : await cluster.create('Event', draft(series))
    } catch (error) {
      // The Event ran out or was changed by somebody: the next attempt makes a new one.
      series.written = undefined
      throw error
    }
  }

  const writeOrDrop = async (series: Series): Promise<void> => {
    for (let failures = 0; ; ) {
      try {
        await write(series)
        metrics?.event('written')
        return
      } catch (error) {
        failures++
        const hopeless = isClusterError(error, 'Invalid', 'Forbidden', 'BadRequest')
        if (hopeless || failures >= attempts || stopping.signal.aborted) {
          metrics?.event('dropped')
          logger.debug({ err: error, reason: series.reason }, 'an event could not be written')
          return
        }
        if (!isClusterError(error, 'Conflict', 'NotFound', 'AlreadyExists'))
          await sleep(clock, backoffMs(failures, retry), stopping.signal)
      }
    }
  }

  const writeAll = async (): Promise<void> => {
    for (let next = waiting.shift(); next; next = waiting.shift()) {
      next.waiting = false
      await writeOrDrop(next)
    }
    writing = undefined
  }

  const record: EventRecorder['record'] = (subject, type, givenReason, givenMessage) => {
    if (stopped) return
    const now = clock.now()
    const { namespace = '', name, uid = '' } = subject.metadata
    const place = `${subject.kind}/${namespace}/${name}/${uid}`
    const reason = givenReason.slice(0, reasonLength)
    const message = truncateUtf8(withoutSecrets(givenMessage), messageBytes)
    const series = remembered(allSeries, JSON.stringify([place, type, reason, message]), () => ({
      subject: referenceTo(subject),
      type,
      reason,
      message,
      firstAt: now,
      lastAt: now,
      count: 0,
      written: undefined,
      waiting: false,
    }))
    series.count++
    series.lastAt = now
    if (series.waiting) return
    if (!buckets.of(place).take() || waiting.length >= maximumSeries) {
      metrics?.event('dropped')
      return
    }
    series.waiting = true
    waiting.push(series)
    writing ??= writeAll()
  }

  return {
    record(subject, type, reason, message) {
      try {
        record(subject, type, reason, message)
      } catch (error) {
        logger.error({ err: error }, 'an event could not be recorded')
      }
    },
    async stop() {
      stopped = true
      const cancel = clock.after(flushMs, () => stopping.abort())
      const gaveUp = new Promise<void>(resolve => {
        stopping.signal.addEventListener('abort', () => resolve(), { once: true })
      })
      await Promise.race([writing, gaveUp])
      cancel()
      stopping.abort()
      waiting.length = 0
    },
  }
}
