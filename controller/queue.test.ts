import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { SimulatedClock, settle } from '../cluster/testing/simulated-clock.ts'
import { Backoff } from './backoff.ts'
import { Heap } from './heap.ts'
import { lowPriority, type Work, WorkQueue } from './queue.ts'

const open = () => {
  const clock = new SimulatedClock()
  return { clock, queue: new WorkQueue({ clock }) }
}
/** Takes this many due keys, as one worker does. */
async function take(queue: WorkQueue, count: number): Promise<(string | undefined)[]> {
  const keys: (string | undefined)[] = []
  for (let n = 0; n < count; n++) keys.push((await queue.next())?.key)
  return keys
}

describe('the work queue', () => {
  test('a key added several times is handed out once, and once more after done if it was added while a worker had it', async () => {
    const { queue } = open()
    queue.add('a')
    queue.add('a')
    expect((await queue.next())?.key).toBe('a')
    queue.add('a')
    queue.add('a')
    let second: Work | undefined
    const waiting = queue.next().then(work => {
      second = work
    })
    await settle()
    expect(second).toBeUndefined()
    queue.done('a')
    await waiting
    expect(second?.key).toBe('a')
    queue.done('a')
    expect(queue.state).toEqual({ ready: 0, delayed: 0, running: [] })
  })

  test('higher priority first, then first in, first out; an add can raise the priority', async () => {
    const { queue } = open()
    queue.add('resync', { priority: lowPriority })
    queue.add('a')
    queue.add('raised', { priority: lowPriority })
    queue.add('b')
    queue.add('raised')
    expect(await take(queue, 4)).toEqual(['a', 'raised', 'b', 'resync'])
  })

  test('the earliest of several times applies', async () => {
    const { clock, queue } = open()
    queue.addAfter('a', 5_000)
    queue.addAfter('a', 1_000)
    queue.addAfter('a', 9_000)
    queue.addAfter('b', 500)
    const order: string[] = []
    void queue.next().then(work => order.push(`${work?.key} at ${clock.now() % 100_000}`))
    void queue.next().then(work => order.push(`${work?.key} at ${clock.now() % 100_000}`))
    await clock.advance(10_000)
    expect(order).toEqual(['b at 500', 'a at 1000'])
    queue.done('a')
    queue.addAfter('a', 5_000)
    queue.add('a')
    expect((await queue.next())?.key).toBe('a')
    await clock.advance(10_000)
    expect(queue.state.ready).toBe(0)
  })

  test('the waiting time counts from when the key was due', async () => {
    const { clock, queue } = open()
    queue.addAfter('a', 1_000)
    await clock.advance(1_700)
    expect((await queue.next())?.waitedMs).toBe(700)
    await clock.advance(250)
    expect(queue.state.running).toEqual([{ key: 'a', ageMs: 250 }])
  })

  test('failures wait 5 ms, then twice as long each time; success resets them', async () => {
    const { clock, queue } = open()
    for (const wait of [5, 10, 20, 40]) {
      queue.addRateLimited('a')
      await clock.advance(wait - 1)
      expect(queue.state).toMatchObject({ ready: 0, delayed: 1 })
      await clock.advance(1)
      expect(await take(queue, 1)).toEqual(['a'])
      queue.done('a')
    }
    expect(queue.retries('a')).toBe(4)
    queue.forget('a')
    expect(queue.retries('a')).toBe(0)
  })

  test('among keys due at the same time a waiting worker gets the one with the higher priority', async () => {
    const { clock, queue } = open()
    const next = queue.next()
    queue.addAfter('resync', 1_000, { priority: lowPriority })
    queue.addAfter('a', 1_000)
    await clock.advance(1_000)
    expect((await next)?.key).toBe('a')
  })

  test('shutDown refuses new keys, drops waiting ones, and resolves when the workers are done', async () => {
    const { clock, queue } = open()
    queue.add('a')
    queue.add('b')
    queue.addAfter('c', 1_000)
    await queue.next()
    let down = false
    const shut = queue.shutDown().then(() => {
      down = true
    })
    expect(clock.pending).toBe(0)
    queue.add('d')
    expect(await queue.next()).toBeUndefined()
    await settle()
    expect(down).toBe(false)
    queue.add('a')
    queue.done('a')
    await shut
    expect(queue.state).toEqual({ ready: 0, delayed: 0, running: [] })
    await queue.shutDown()
  })

  test('shutDown wakes the workers that wait', async () => {
    const { queue } = open()
    const waiting = [queue.next(), queue.next()]
    await queue.shutDown()
    expect(await Promise.all(waiting)).toEqual([undefined, undefined])
  })
})

describe('the retry limiter', () => {
  test('doubles the delay up to the maximum, and starts again after forget', () => {
    let now = 0
    const limiter = new Backoff(() => now, { burst: 1_000 })
    const delays = Array.from({ length: 20 }, () => {
      const delay = limiter.delayMs('a')
      now += delay
      return delay
    })
    expect(delays.slice(0, 4)).toEqual([5, 10, 20, 40])
    expect(delays.at(-1)).toBe(1_000_000)
    expect(limiter.delayMs('b')).toBe(5)
    limiter.forget('a')
    expect(limiter.delayMs('a')).toBe(5)
  })

  test('does not count a failure before the retry is due; the retry time does not change', () => {
    let now = 0
    const limiter = new Backoff(() => now, { baseMs: 1_000 })
    expect(limiter.delayMs('a')).toBe(1_000)
    for (now = 10; now < 1_000; now += 10) expect(limiter.delayMs('a')).toBe(1_000 - now)
    expect(limiter.failures('a')).toBe(1)
    expect([limiter.delayMs('a'), limiter.failures('a')]).toEqual([2_000, 2])
  })

  test('all keys together retry at most as fast as the token bucket fills', () => {
    let now = 0
    const limiter = new Backoff(() => now, { perSecond: 10, burst: 100 })
    const delays = Array.from({ length: 300 }, (_, n) => limiter.delayMs(`key ${n}`))
    expect(delays.slice(0, 100).every(delay => delay === 5)).toBe(true)
    expect(delays[299]).toBeCloseTo(20_000, 5)
    now = 30_000
    expect(limiter.delayMs('later')).toBe(5)
  })
})

test('the heap returns its smallest entry, also after entries were removed from the middle', () => {
  fc.assert(
    fc.property(fc.array(fc.record({ rank: fc.integer(), take: fc.boolean() })), entries => {
      const heap = new Heap<{ rank: number; take: boolean; position: number }>((a, b) => a.rank < b.rank)
      const all = entries.map(entry => ({ ...entry, position: -1 }))
      for (const entry of all) heap.push(entry)
      for (const entry of all) if (entry.take) heap.remove(entry)
      const popped: number[] = []
      for (let entry = heap.pop(); entry; entry = heap.pop()) popped.push(entry.rank)
      expect(popped).toEqual(
        all
          .filter(({ take }) => !take)
          .map(({ rank }) => rank)
          .sort((a, b) => a - b),
      )
      expect(all.every(({ position }) => position === -1)).toBe(true)
    }),
  )
})

/** A simple model of the queue: each key with its earliest requested time and its highest priority. */
class Model {
  readonly owed = new Map<string, { dueAt: number; priority: number }>()
  readonly running = new Set<string>()

  add(key: string, dueAt: number, priority: number) {
    const before = this.owed.get(key)
    this.owed.set(key, {
      dueAt: Math.min(before?.dueAt ?? dueAt, dueAt),
      priority: Math.max(before?.priority ?? priority, priority),
    })
  }

  /** Keys that a worker could get now. */
  available(now: number): string[] {
    return [...this.owed].filter(([key, { dueAt }]) => dueAt <= now && !this.running.has(key)).map(([key]) => key)
  }
}

const key = fc.constantFrom('a', 'b', 'c', 'd', 'e')
const command = fc.oneof(
  fc.record({ do: fc.constant('add' as const), key, ms: fc.constantFrom(0, 0, 1, 10, 500), low: fc.boolean() }),
  fc.record({ do: fc.constant('fail' as const), key }),
  fc.record({ do: fc.constant('take' as const) }),
  fc.record({ do: fc.constant('done' as const), key }),
  fc.record({ do: fc.constant('advance' as const), ms: fc.constantFrom(1, 5, 10, 400, 5_000) }),
)

test('any history: one worker per key, no key lost, duplicated or early, higher priority first', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(command, { maxLength: 80, size: 'max' }), async history => {
      const { clock, queue } = open()
      const limiter = new Backoff(clock.now)
      const model = new Model()
      const workers: Promise<void>[] = []
      const got = (work: Work | undefined) => {
        if (!work) return
        const owed = model.owed.get(work.key)
        expect(owed, `${work.key} was not due`).toBeDefined()
        expect(model.running.has(work.key), `two workers have ${work.key}`).toBe(false)
        expect(owed?.dueAt).toBeLessThanOrEqual(clock.now())
        for (const other of model.available(clock.now()))
          expect(model.owed.get(other)?.priority).toBeLessThanOrEqual(work.priority)
        expect(work.priority).toBe(owed?.priority)
        model.owed.delete(work.key)
        model.running.add(work.key)
      }
      for (const step of history) {
        if (step.do === 'add') {
          const priority = step.low ? lowPriority : 0
          model.add(step.key, clock.now() + step.ms, priority)
          queue.addAfter(step.key, step.ms, { priority })
        } else if (step.do === 'fail') {
          model.add(step.key, clock.now() + limiter.delayMs(step.key), 0)
          queue.addRateLimited(step.key)
        } else if (step.do === 'take') {
          if (model.available(clock.now()).length > 0) got(await queue.next())
        } else if (step.do === 'done') {
          model.running.delete(step.key)
          queue.done(step.key)
        } else await clock.advance(step.ms)
        expect(queue.state.ready + queue.state.delayed).toBe(model.owed.size)
        expect(queue.state.running.map(({ key }) => key).sort()).toEqual([...model.running].sort())
      }
      for (const running of [...model.running]) {
        model.running.delete(running)
        queue.done(running)
      }
      for (let n = 0; n < 5; n++) workers.push(queue.next().then(got))
      await clock.advance(10_000_000)
      expect(model.owed.size).toBe(0)
      const down = queue.shutDown()
      for (const running of model.running) queue.done(running)
      await down
      await Promise.all(workers)
      expect(clock.pending).toBe(0)
    }),
    { numRuns: 300 },
  )
})
