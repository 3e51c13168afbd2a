import { pino } from 'pino'
import { afterEach, describe, expect, test } from 'vitest'
import { ClusterError } from '../cluster/index.ts'
import { SimulatedClock, settle } from '../cluster/testing/simulated-clock.ts'
import { type Controller, type ControllerOptions, startController } from './controller.ts'
import { createMetrics } from './metrics.ts'

const running = new Set<{ controller: Controller; clock: SimulatedClock }>()
afterEach(async () => {
  for (const { controller, clock } of running) {
    await controller.stop()
    expect(clock.pending, 'timers left behind').toBe(0)
  }
  running.clear()
})

function open(options: Partial<ControllerOptions> & Pick<ControllerOptions, 'reconcile'>) {
  const clock = new SimulatedClock()
  const metrics = createMetrics()
  const lines: Record<string, unknown>[] = []
  const logger = pino({ level: 'debug' }, { write: line => lines.push(JSON.parse(line)) })
  const controller = startController({
    name: 'test',
    workers: 2,
    logger,
    metrics,
    clock,
    random: () => 0.5,
    ...options,
  })
  running.add({ controller, clock })
  const results = async () => {
    const text = await metrics.registry.metrics()
    return Object.fromEntries(
      [...text.matchAll(/espalier_reconcile_duration_seconds_count\{controller="test",result="(\w+)"\} (\d+)/g)].map(
        ([, result, count]) => [result, Number(count)],
      ),
    )
  }
  return { clock, controller, lines, metrics, results }
}

describe('a controller', () => {
  test('lets timers of the process run although its passes enqueue their own key at once', async () => {
    const endsAt = performance.now() + 5_000
    let isOver = false
    const { controller } = open({
      reconcile: async key => {
        isOver ||= performance.now() > endsAt
        if (!isOver) controller.enqueue(key)
        return undefined
      },
    })
    controller.enqueue('a')
    const wasOver = await new Promise<boolean>(resolve => setTimeout(() => resolve(isOver), 10))
    isOver = true
    expect(wasOver).toBe(false)
  })

  test('runs at most one pass per worker at the same time, and never two passes for one key', async () => {
    const active = new Map<string, number>()
    let most = 0
    const { clock, controller } = open({
      workers: 3,
      reconcile: async key => {
        active.set(key, (active.get(key) ?? 0) + 1)
        expect(active.get(key)).toBe(1)
        most = Math.max(
          most,
          [...active.values()].reduce((sum, n) => sum + n, 0),
        )
        await new Promise<void>(resolve => clock.after(10, resolve))
        active.set(key, 0)
        return undefined
      },
    })
    for (let n = 0; n < 30; n++) controller.enqueue(`key ${n % 7}`)
    await clock.advance(5)
    for (let n = 0; n < 30; n++) controller.enqueue(`key ${n % 7}`)
    await clock.advance(1_000)
    expect(most).toBe(3)
  })

  test('a failing key is retried with increasing delays; a success resets the delay', async () => {
    const at: number[] = []
    const { clock, controller, results } = open({
      reconcile: async () => {
        at.push(clock.now())
        if (at.length <= 4) throw new ClusterError('Unavailable', 'no answer')
        return undefined
      },
    })
    controller.enqueue('a')
    await clock.advance(1_000)
    expect(at.slice(1).map((time, n) => time - (at[n] ?? 0))).toEqual([5, 10, 20, 40])
    expect(await results()).toEqual({ error: 4, success: 1 })
  })

  test('events during a backoff neither lengthen it nor replace its retry', async () => {
    const at: number[] = []
    let isDown = true
    const { clock, controller } = open({
      limits: { baseMs: 1_000 },
      reconcile: async () => {
        at.push(clock.now())
        if (isDown) throw new ClusterError('Unavailable', 'no answer')
        return undefined
      },
    })
    const start = clock.now()
    controller.enqueue('a')
    for (let n = 0; n < 9; n++) {
      await clock.advance(100)
      controller.enqueue('a')
    }
    await clock.advance(50)
    isDown = false
    expect(at).toHaveLength(10)
    await clock.advance(50)
    expect(at.at(-1)).toBe(start + 1_000)
  })

  test('requeueAfterMs requeues after that time; a conflict requeues at once without a log line; a programming error counts as a panic', async () => {
    const at: number[] = []
    const { clock, controller, lines, results } = open({
      reconcile: async () => {
        at.push(clock.now())
        if (at.length === 1) return { requeueAfterMs: 700 }
        if (at.length === 2) throw new ClusterError('Conflict', 'changed')
        if (at.length === 3) throw new TypeError('undefined is not a function')
        return undefined
      },
    })
    controller.enqueue('a')
    await clock.advance(5_000)
    expect(at.slice(1).map((time, n) => time - (at[n] ?? 0))).toEqual([700, 5, 10])
    expect(await results()).toEqual({ requeue_after: 1, conflict: 1, panic: 1, success: 1 })
    expect(lines.map(({ level, msg }) => [level, msg])).toEqual([
      [20, 'decided on an outdated state, retrying'],
      [50, 'the reconciler threw'],
    ])
  })

  test('a reconciler that throws before its first await fails like any other', async () => {
    const { clock, controller, results } = open({
      reconcile: () => {
        throw new Error('at once')
      },
    })
    controller.enqueue('a')
    await clock.advance(8)
    expect(await results()).toEqual({ error: 2 })
  })

  test('a pass past its deadline is aborted, named in the log, and listed until it ends', async () => {
    const release = Promise.withResolvers<void>()
    let aborted = false
    const { clock, controller, lines, results } = open({
      deadlineMs: 1_000,
      reconcile: async (_key, signal) => {
        signal.addEventListener('abort', () => {
          aborted = true
        })
        await release.promise
        signal.throwIfAborted()
        return undefined
      },
    })
    controller.enqueue('stuck')
    controller.enqueue('stuck too')
    await clock.advance(900)
    expect(aborted).toBe(false)
    expect(controller.overdue()).toEqual([])
    await clock.advance(7_000)
    expect(aborted).toBe(true)
    expect(controller.overdue().map(({ key }) => key)).toEqual(['stuck', 'stuck too'])
    const warnings = lines.filter(({ msg }) => msg === 'a pass is past its deadline')
    expect(warnings.filter(({ key }) => key === 'stuck').map(({ ageMs }) => ageMs)).toEqual([1_000, 3_000, 7_000])
    release.resolve()
    await settle()
    expect(await results()).toEqual({ timeout: 2 })
  })

  test('every key is reconciled again at an interval, at low priority, spread over time', async () => {
    const seen: string[] = []
    const { clock } = open({
      resyncMs: 600_000,
      keys: () => ['a', 'b', 'c'],
      random: Math.random,
      reconcile: async key => {
        seen.push(key)
        return undefined
      },
    })
    await clock.advance(539_000)
    expect(seen).toEqual([])
    await clock.advance(660_000 + 60_000 - 539_000)
    expect(seen.slice(0, 3).sort()).toEqual(['a', 'b', 'c'])
    await clock.advance(6_000_000)
    expect(seen.length).toBeGreaterThanOrEqual(24)
  })

  test('stop waits for running passes, starts no new one, and aborts those that take too long', async () => {
    const events: string[] = []
    const { clock, controller } = open({
      workers: 1,
      reconcile: async (key, signal) => {
        events.push(`begin ${key}`)
        await new Promise<void>(resolve => {
          const cancel = clock.after(key === 'slow' ? 60_000 : 1_000, resolve)
          signal.addEventListener('abort', () => {
            cancel()
            resolve()
          })
        })
        events.push(`end ${key}${signal.aborted ? ' aborted' : ''}`)
        return undefined
      },
    })
    controller.enqueue('quick')
    controller.enqueue('never')
    await clock.advance(10)
    const stopped = controller.stop().then(() => events.push('stopped'))
    await clock.advance(2_000)
    await stopped
    expect(events).toEqual(['begin quick', 'end quick', 'stopped'])
  })

  test('stop does not wait longer for a pass that ignores its signal', async () => {
    const { clock, controller, lines } = open({ reconcile: () => new Promise(() => {}) })
    controller.enqueue('deaf')
    await settle()
    const stopped = controller.stop(1_000)
    await clock.advance(6_000)
    await stopped
    expect(lines.at(-1)).toMatchObject({ keys: ['deaf'], msg: 'stopped while passes are still running' })
    running.clear()
  })

  test('losing leadership aborts running passes and prevents new ones', async () => {
    const leadership = new AbortController()
    const seen: string[] = []
    const { controller, clock } = open({
      workers: 1,
      signal: leadership.signal,
      reconcile: async (key, signal) => {
        seen.push(key)
        await new Promise<void>(resolve => signal.addEventListener('abort', () => resolve()))
        throw signal.reason
      },
    })
    controller.enqueue('a')
    controller.enqueue('b')
    await clock.advance(10)
    leadership.abort(new ClusterError('Unavailable', 'lost'))
    await controller.stop()
    controller.enqueue('c')
    await settle()
    expect(seen).toEqual(['a'])
  })

  test('its metrics show the queue', async () => {
    const release = Promise.withResolvers<undefined>()
    const { clock, controller, metrics } = open({ workers: 1, reconcile: () => release.promise })
    controller.enqueue('a')
    controller.enqueue('b')
    controller.enqueueAfter('c', 90_000)
    await clock.advance(4_000)
    const text = await metrics.registry.metrics()
    expect(text).toContain('workqueue_depth{name="test"} 1')
    expect(text).toContain('workqueue_delayed{name="test"} 1')
    expect(text).toContain('workqueue_running{name="test"} 1')
    expect(text).toContain('workqueue_longest_running_processor_seconds{name="test"} 4')
    expect(text).toContain('workqueue_adds_total{name="test"} 3')
    release.resolve(undefined)
    await controller.stop()
    expect(await metrics.registry.metrics()).not.toContain('workqueue_depth{')
  })
})
