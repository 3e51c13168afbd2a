/**
 * The work queue of controller-runtime: it holds keys, never objects.
 *
 * A key is in the queue at most once, however often it is added; adding it again can only bring it forward (an earlier
 * time, a higher priority). No key is ever with two workers: one that is added while a worker has it is handed out again,
 * once, after `done`. Among keys that are due the higher priority goes first, and then the one that was due first.
 * Nothing is handed out after `shutDown`.
 */
import { type Clock, systemClock } from '../cluster/informer/index.ts'
import { Backoff, type BackoffOptions } from './backoff.ts'
import { Heap } from './heap.ts'

/** Of changes, and of what nobody waits for (the resync). */
export const normalPriority = 0
export const lowPriority = -100

export type AddOptions = { priority?: number | undefined }

/** A key handed to a worker; `waitedMs` is how long it was due. */
export type Work = { key: string; priority: number; waitedMs: number }

export type QueueState = {
  /** Keys that are due and wait for a worker, and those not due yet. */
  ready: number
  delayed: number
  running: { key: string; ageMs: number }[]
}

type Item = {
  readonly key: string
  priority: number
  /** When it is, or became, due. */
  dueAt: number
  order: number
  /** `parked`: due, but a worker has its key. */
  place: 'delayed' | 'ready' | 'parked'
  position: number
}

/** What a work queue counts. All times are in ms. */
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

  /** Due at once. */
  add(key: string, options: AddOptions = {}): void {
    this.#insert(key, this.#clock.now(), options)
  }

  /** Due after `delayMs`; where the key already waits, the earlier of both times holds. */
  addAfter(key: string, delayMs: number, options: AddOptions = {}): void {
    this.#insert(key, this.#clock.now() + Math.max(0, delayMs), options)
  }

  /** Due after the delay that the key's failures so far ask for. Counts one more, unless it failed before its retry was due. */
  addRateLimited(key: string, options: AddOptions = {}): void {
    this.#metrics?.retried()
    this.addAfter(key, this.#limiter.delayMs(key), options)
  }

  /** The key succeeded: its next failure is its first. */
  forget(key: string): void {
    this.#limiter.forget(key)
  }

  /** Failures since the key was last forgotten. */
  retries(key: string): number {
    return this.#limiter.failures(key)
  }

  /** The next key to work on, to be given back by `done`; undefined once the queue is shut down. */
  next(): Promise<Work | undefined> {
    if (this.#drained) return Promise.resolve(undefined)
    return new Promise(resolve => {
      this.#idle.push(resolve)
      this.#dispatch()
    })
  }

  /** The worker is finished with a key that `next` gave it. */
  done(key: string): void {
    const startedAt = this.#running.get(key)
    if (startedAt === undefined) return
    this.#running.delete(key)
    this.#metrics?.finished(this.#clock.now() - startedAt)
    const item = this.#items.get(key)
    if (item?.place === 'parked') {
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
   * From here on nothing is added and nothing handed out; keys that still wait are dropped (whoever works next looks at
   * everything anyway). Resolves when the workers have given back what they have.
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
      item = { key, priority, dueAt, order: 0, place: 'delayed', position: -1 }
      this.#items.set(key, item)
      this.#metrics?.added()
    } else {
      if (item.place === 'delayed') this.#delayed.remove(item)
      else if (item.place === 'ready') this.#ready.remove(item)
      item.priority = Math.max(item.priority, priority)
      if (item.place !== 'delayed') {
        if (item.place === 'ready') this.#ready.push(item)
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
    item.place = 'parked'
    if (!this.#running.has(item.key)) this.#becomeReady(item)
  }

  #becomeReady(item: Item): void {
    item.place = 'ready'
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

  /** All that is due becomes ready before any of it is handed out, so that the priority decides. */
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
