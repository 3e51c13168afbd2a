/**
 * Records Events, which users read with `kubectl describe`. Recording returns at once and never throws. The recorder
 * writes Events in the background, one request at a time. Events with the same object, reason and message are one Event
 * with a count. Each object has a rate limit. Events above the limit, and Events that cannot be written, are dropped
 * and counted. Text that can be a secret is redacted.
 */
import { randomBytes } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import type { Logger } from 'pino'
import { type AnyObject, type Cluster, type Event, isClusterError, isRefused } from '../cluster/index.ts'
import { backoffMs, type Clock, sleep, systemClock } from '../cluster/informer/index.ts'
import { TokenBuckets } from '../server/token-bucket.ts'
import { timestamp } from '../values/time.ts'
import type { Metrics } from './metrics.ts'

export type EventRecorder = {
  /** `reason` is in UpperCamelCase. `message` is a sentence, truncated at 1,024 bytes, which is Kubernetes' limit. */
  record(subject: AnyObject, type: 'Normal' | 'Warning', reason: string, message: string): void
  /** Stops recording, and writes queued Events for at most 2 s. */
  stop(): Promise<void>
}

/** One Event: `count` is the number of occurrences recorded, `written` is the Event in the cluster. */
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
/** As in client-go: a burst of 25 per object, then one every five minutes. */
const defaultRate = { perSecond: 1 / 300, burst: 25 }

/** Truncates a text to at most `bytes` in UTF-8, at a character boundary. */
export function truncateUtf8(text: string, bytes: number): string {
  const encoded = Buffer.from(text)
  if (encoded.length <= bytes) return text
  let end = bytes - 3
  while (end > 0 && ((encoded[end] ?? 0) & 0xc0) === 0x80) end--
  return `${encoded.subarray(0, end).toString()}…`
}

/** Redacts text that can be a secret: URI user information, pairs like `password=`, bearer tokens, PEM private keys. */
export function withoutSecrets(text: string): string {
  return text
    .replace(/-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)/g, '[private key]')
    .replace(/(\b[a-z][a-z0-9+.-]{0,30}:\/\/)[^\s/@]*@/gi, '$1***@')
    .replace(/\b(password|passwd|pwd|secret|token|api[_-]?key)(["']?\s*[=:]\s*)("[^"]*"|'[^']*'|[^\s,;]+)/gi, '$1$2***')
    .replace(/\b(bearer)\s+[\w.~+/=-]+/gi, '$1 ***')
}

/** Returns the cached value, or creates and caches it. */
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

type RecorderOptions = {
  cluster: Cluster
  /** The reporting component, such as `espalier-operator`, and its process. */
  component: string
  instance: string
  logger: Logger
  metrics?: Metrics | undefined
  rate?: { perSecond: number; burst: number }
  clock?: Clock
}

export function createEventRecorder(options: RecorderOptions): EventRecorder {
  const recorder = new QueuedRecorder(options)
  return {
    record(subject, type, reason, message) {
      try {
        recorder.record(subject, type, reason, message)
      } catch (error) {
        options.logger.error({ err: error }, 'an Event could not be recorded')
      }
    },
    stop: () => recorder.stop(),
  }
}

class QueuedRecorder implements EventRecorder {
  readonly #options: RecorderOptions
  readonly #clock: Clock
  readonly #series = new LRUCache<string, Series>({ max: maximumSeries })
  readonly #buckets: TokenBuckets
  readonly #waiting: Series[] = []
  readonly #stopping = new AbortController()
  #stopped = false
  #writing: Promise<void> | undefined

  constructor(options: RecorderOptions) {
    const { rate = defaultRate, clock = systemClock } = options
    this.#options = options
    this.#clock = clock
    this.#buckets = new TokenBuckets(clock.now, rate, maximumSeries)
  }

  record(subject: AnyObject, type: Series['type'], givenReason: string, givenMessage: string): void {
    if (this.#stopped) return
    const now = this.#clock.now()
    const { namespace = '', name, uid = '' } = subject.metadata
    const subjectKey = `${subject.kind}/${namespace}/${name}/${uid}`
    const reason = givenReason.slice(0, reasonLength)
    const message = truncateUtf8(withoutSecrets(givenMessage), messageBytes)
    const series = remembered(this.#series, JSON.stringify([subjectKey, type, reason, message]), () => ({
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
    if (!this.#buckets.of(subjectKey).take() || this.#waiting.length >= maximumSeries) {
      this.#options.metrics?.event('dropped')
      return
    }
    series.waiting = true
    this.#waiting.push(series)
    this.#writing ??= this.#writeAll()
  }

  async stop(): Promise<void> {
    const { signal } = this.#stopping
    this.#stopped = true
    const cancel = this.#clock.after(flushMs, () => this.#stopping.abort())
    const gaveUp = new Promise<void>(resolve => {
      signal.addEventListener('abort', () => resolve(), { once: true })
    })
    await Promise.race([this.#writing, gaveUp])
    cancel()
    this.#stopping.abort()
    this.#waiting.length = 0
  }

  async #writeAll(): Promise<void> {
    for (let next = this.#waiting.shift(); next; next = this.#waiting.shift()) {
      next.waiting = false
      await this.#writeOrDrop(next)
    }
    this.#writing = undefined
  }

  async #writeOrDrop(series: Series): Promise<void> {
    const { metrics, logger } = this.#options
    const { signal } = this.#stopping
    for (let failures = 0; ; ) {
      try {
        await this.#write(series)
        metrics?.event('written')
        return
      } catch (error) {
        failures++
        const isPermanent = isRefused(error)
        if (isPermanent || failures >= attempts || signal.aborted) {
          metrics?.event('dropped')
          logger.debug({ err: error, reason: series.reason }, 'an Event could not be written')
          return
        }
        if (!isClusterError(error, 'Conflict', 'NotFound', 'AlreadyExists'))
          await sleep(this.#clock, backoffMs(failures, retry), signal)
      }
    }
  }

  async #write(series: Series): Promise<void> {
    const { cluster, component, instance } = this.#options
    const { written, count, lastAt } = series
    try {
      series.written = written
        ? await cluster.replace('Event', { ...written, count, lastTimestamp: timestamp(lastAt) })
        : await cluster.create('Event', eventOf(series, component, instance))
    } catch (error) {
      // The Event has expired, or another client changed it. The next attempt creates a new Event.
      series.written = undefined
      throw error
    }
  }
}

const eventOf = (
  { subject, type, reason, message, firstAt, lastAt, count }: Series,
  component: string,
  instance: string,
): Event => ({
  apiVersion: 'v1',
  kind: 'Event',
  metadata: {
    name: `${subject.name.slice(0, 230)}.${randomBytes(8).toString('hex')}`,
    // The API server accepts Events about cluster-scoped objects only in this namespace.
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
})
