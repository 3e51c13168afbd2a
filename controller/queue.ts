/**
 * The work queue of controller-runtime: it contains keys, never objects.
 *
 * A key is in the queue at most once, however often it is added. A second add can only make it due earlier or raise its
 * priority. Two workers never have the same key. If a key is added while a worker has it, it is handed out again, once,
 * after `done`. Among due keys the highest priority is first, then the earliest due time. After `shutDown` no key is
 * handed out.
 */
import { type Clock, systemClock } from '../cluster/informer/index.ts'
import { Backoff, type BackoffOptions } from './backoff.ts'
import { Heap } from './heap.ts'

/** The priorities of changes and of the resync. Nothing waits for the resync. */
export const normalPriority = 0
export const lowPriority = -100

export type AddOptions = { priority?: number | undefined }

/** A key handed to a worker. `waitedMs`: how long it had been due. */
export type Work = { key: string; priority: number; waitedMs: number }

export type QueueState = {
  /** Keys that are due and wait for a worker, and keys that are not yet due. */
  ready: number
  delayed: number
  running: { key: string; ageMs: number }[]
}

type Item = {
  readonly key: string
  priority: number
  /** When the key is, or became, due. */
  dueAt: number
  order: number
  /** `parked`: due, but a worker has the same key. */
  state: 'delayed' | 'ready' | 'parked'
  position: number
}

/** The metrics of a work queue. All times are in ms. */
export type QueueMetrics = {
  added(): void
  retried(): void
  started(waitedMs: number): void
  finished(workedMs: number): void
}

export class WorkQueue {
  readonly #clock: Clock
  readonly #limiter: Backoff
  readonly #metrics: QueueMetrics | undefined
  readonly #items = new Map<string, Item>()
  readonly #delayed = new Heap<Item>((a, b) => a.dueAt < b.dueAt)
  readonly #ready = new Heap<Item>((a, b) => (a.priority === b.priority ? a.order < b.order : a.priority > b.priority))
  /** Keys that workers have, and since when. */
  readonly #running = new Map<string, number>()
  readonly #idle: ((work: Work | undefined) => void)[] = []
  #order = 0
  #timer: { dueAt: number; cancel: () => void } | undefined
  #drained: PromiseWithResolvers<void> | undefined

  constructor(options: { clock?: Clock; limits?: BackoffOptions; metrics?: QueueMetrics } = {}) {
    this.#clock = options.clock ?? systemClock
    this.#limiter = new Backoff(this.#clock.now, options.limits)
    this.#metrics = options.metrics
  }

  /** Adds a key that is due at once. */
  add(key: string, options: AddOptions = {}): void {
    this.#insert(key, this.#clock.now(), options)
  }

  /** Adds a key that is due after `delayMs`. If the key already waits, the earlier time applies. */
  addAfter(key: string, delayMs: number, options: AddOptions = {}): void {
    this.#insert(key, this.#clock.now() + Math.max(0, delayMs), options)
  }

  /**
   * Adds a key with the delay for its number of failures. Counts one more failure, unless it failed before its retry
   * was due.
   */
  addRateLimited(key: string, options: AddOptions = {}): void {
    this.#metrics?.retried()
    this.addAfter(key, this.#limiter.delayMs(key), options)
  }

  /** Resets the failures of a key that succeeded. */
  forget(key: string): void {
    this.#limiter.forget(key)
  }

  /** Failures since the key was last forgotten. */
  retries(key: string): number {
    return this.#limiter.failures(key)
  }

  /**
   * Returns the next key to process. The worker returns the key with `done`. Resolves to undefined after the queue is
   * shut down.
   */
  next(): Promise<Work | undefined> {
    if (this.#drained) return Promise.resolve(undefined)
    return new Promise(resolve => {
      this.#idle.push(resolve)
      this.#dispatch()
    })
  }

  /** Reports that the worker has finished a key from `next`. */
  done(key: string): void {
    const startedAt = this.#running.get(key)
    if (startedAt === undefined) return
    this.#running.delete(key)
    this.#metrics?.finished(this.#clock.now() - startedAt)
    const item = this.#items.get(key)
    if (item?.state === 'parked') {
      this.#becomeReady(item)
      this.#dispatch()
    }
    if (this.#running.size === 0) this.#drained?.resolve()
  }

  get state(): QueueState {
    const now = this.#clock.now()
    return {
      ready: this.#items.size - this.#delayed.size,
      delayed: this.#delayed.size,
      running: [...this.#running].map(([key, startedAt]) => ({ key, ageMs: now - startedAt })),
    }
  }

  /**
   * Stops the queue: no key is added or handed out after that, and waiting keys are dropped. The next leader reconciles
   * all keys. Resolves when the workers have returned their keys.
   */
  shutDown(): Promise<void> {
    if (!this.#drained) {
      this.#drained = Promise.withResolvers<void>()
      this.#timer?.cancel()
      this.#timer = undefined
      this.#delayed.clear()
      this.#ready.clear()
      this.#items.clear()
      for (const resolve of this.#idle.splice(0)) resolve(undefined)
      if (this.#running.size === 0) this.#drained.resolve()
    }
    return this.#drained.promise
  }

  #insert(key: string, dueAt: number, { priority = normalPriority }: AddOptions): void {
    if (this.#drained) return
    let item = this.#items.get(key)
    if (!item) {
      item = { key, priority, dueAt, order: 0, state: 'delayed', position: -1 }
      this.#items.set(key, item)
      this.#metrics?.added()
    } else {
      if (item.state === 'delayed') this.#delayed.remove(item)
      else if (item.state === 'ready') this.#ready.remove(item)
      item.priority = Math.max(item.priority, priority)
      if (item.state !== 'delayed') {
        if (item.state === 'ready') this.#ready.push(item)
        return
      }
      item.dueAt = Math.min(item.dueAt, dueAt)
    }
    if (item.dueAt <= this.#clock.now()) this.#becomeDue(item)
    else this.#delayed.push(item)
    this.#dispatch()
    this.#arm()
  }

  #becomeDue(item: Item): void {
    item.state = 'parked'
    if (!this.#running.has(item.key)) this.#becomeReady(item)
  }

  #becomeReady(item: Item): void {
    item.state = 'ready'
    item.order = this.#order++
    this.#ready.push(item)
  }

  #dispatch(): void {
    while (this.#idle.length > 0) {
      const item = this.#ready.pop()
      if (!item) return
      this.#idle.shift()?.(this.#handOut(item))
    }
  }

  #handOut(item: Item): Work {
    const now = this.#clock.now()
    const waitedMs = Math.max(0, now - item.dueAt)
    this.#items.delete(item.key)
    this.#running.set(item.key, now)
    this.#metrics?.started(waitedMs)
    return { key: item.key, priority: item.priority, waitedMs }
  }

  /** One timer, for the first delayed key. */
  #arm(): void {
    const first = this.#delayed.peek()
    if (this.#timer?.dueAt === first?.dueAt) return
    this.#timer?.cancel()
    this.#timer = undefined
    if (!first) return
    const cancel = this.#clock.after(first.dueAt - this.#clock.now(), () => this.#promote())
    this.#timer = { dueAt: first.dueAt, cancel }
  }

  /** All due keys become ready before any of them is handed out, so that the priority decides. */
  #promote(): void {
    this.#timer = undefined
    const now = this.#clock.now()
    for (let first = this.#delayed.peek(); first && first.dueAt <= now; first = this.#delayed.peek()) {
      this.#delayed.remove(first)
      this.#becomeDue(first)
    }
    this.#dispatch()
    this.#arm()
  }
}
