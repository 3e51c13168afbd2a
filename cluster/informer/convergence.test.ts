/**
 * Random histories against a scripted cluster. Streams, pages and the server may fail in any way, and this process's
 * own writes may be added at any time. In every case, the cache ends with the true state, no object in it becomes
 * older, its indexes equal a recomputation, and every handler ends with the final state of each object.
 */
import fc from 'fast-check'
import { pino } from 'pino'
import { describe, expect, test } from 'vitest'
import { ClusterError } from '../errors.ts'
import type { ConfigMap } from '../kinds.ts'
import { ScriptedCluster } from '../testing/scripted-cluster.ts'
import { SimulatedClock, settle } from '../testing/simulated-clock.ts'
import { createInformer, withoutManagedFields } from './informer.ts'
import { keyOf, keyText } from './key.ts'
import { compareVersions } from './version.ts'

const logger = pino({ level: 'silent' })
const name = fc.constantFrom(
  { namespace: 'x', name: 'a' },
  { namespace: 'x', name: 'b' },
  { namespace: 'y', name: 'a' },
  { namespace: 'y', name: 'c' },
)
const colour = fc.constantFrom('red', 'green', 'blue')
const writeThrough = fc.constantFrom('now', 'later', 'never')
const how = fc.constantFrom('ended' as const, 'Unavailable' as const, 'TooManyRequests' as const)
const ms = fc.constantFrom(0, 1, 60, 150, 1_000, 7_000, 40_000, 700_000)
const step = fc.oneof(
  { weight: 6, arbitrary: fc.record({ do: fc.constant('write' as const), key: name, colour, writeThrough }) },
  { weight: 4, arbitrary: fc.record({ do: fc.constant('remove' as const), key: name }) },
  { weight: 6, arbitrary: fc.record({ do: fc.constant('deliver' as const), count: fc.integer({ min: 1, max: 9 }) }) },
  { weight: 4, arbitrary: fc.record({ do: fc.constant('rememberLate' as const), which: fc.nat({ max: 20 }) }) },
  { weight: 4, arbitrary: fc.record({ do: fc.constant('advance' as const), ms }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('break' as const), how }) },
  ...(
    [
      'compact',
      'bookmark',
      'fallSilent',
      'die',
      'revive',
      'revive',
      'revive',
      'blockLists',
      'releaseLists',
      'releaseLists',
    ] as const
  ).map(what => ({
    weight: 1,
    arbitrary: fc.record({ do: fc.constant(what) }),
  })),
)
type Step = typeof step extends fc.Arbitrary<infer S> ? S : never

const byName = (objects: Iterable<ConfigMap>) =>
  Object.fromEntries([...objects].map(object => [keyOf(object), object]).sort())

const sameObjects = (some: ConfigMap[], others: ConfigMap[]) =>
  some.length === others.length && new Set(some).symmetricDifference(new Set(others)).size === 0

async function run(history: Step[]) {
  const clock = new SimulatedClock()
  const server = new ScriptedCluster({ eager: false })
  const indexes = {
    colour: (object: ConfigMap) => [object.data?.colour ?? ''],
    letters: (object: ConfigMap) => [object.metadata.name, object.metadata.namespace ?? ''],
  }
  const informer = createInformer(server.asCluster(), 'ConfigMap', {
    indexes,
    logger,
    now: clock.now,
    after: clock.after,
  })
  const views = [new Map<string, ConfigMap>(), new Map<string, ConfigMap>()]
  const newest = new Map<string, string>()
  /** Unexpected calls of handlers. They are recorded, because the informer would catch an exception. */
  const violations: string[] = []
  let odd = false
  for (const view of views)
    informer.onChange(({ type, object, previous }) => {
      if (previous !== view.get(keyOf(object)))
        violations.push(`${keyOf(object)}: the previous state is not the last one that the handler got`)
      if (type === 'set') view.set(keyOf(object), object)
      else view.delete(keyOf(object))
      odd = !odd
      if (odd) throw new Error('a handler of a careless author')
    })
  informer.onChange(({ object }) => {
    const version = object.metadata.resourceVersion
    const before = newest.get(keyOf(object))
    if (compareVersions(version, before) < 0) violations.push(`${keyOf(object)} went back from ${before} to ${version}`)
    newest.set(keyOf(object), version ?? '')
  })
  const written: ConfigMap[] = []

  const check = () => {
    const objects = informer.list()
    for (const [index, valuesOf] of Object.entries(indexes)) {
      for (const value of ['red', 'green', 'blue', 'a', 'b', 'c', 'x', 'y']) {
        const expected = objects.filter(object => valuesOf(object).includes(value))
        if (!sameObjects(informer.byIndex(index, value), expected)) violations.push(`index ${index}, value ${value}`)
      }
    }
    for (const view of views) if (!sameObjects([...view.values()], objects)) violations.push('a handler is behind')
    expect(informer.state.objects).toBe(objects.length)
    expect(violations).toEqual([])
  }
  const readsBack = (object: ConfigMap) => {
    const cached = informer.get(object.metadata)
    if (cached)
      expect(compareVersions(cached.metadata.resourceVersion, object.metadata.resourceVersion)).toBeGreaterThanOrEqual(
        0,
      )
    else expect(server.truth.get(keyOf(object))?.metadata.resourceVersion).not.toBe(object.metadata.resourceVersion)
  }

  const perform = async (command: Step) => {
    switch (command.do) {
      case 'write': {
        const object = server.write(command.key, { colour: command.colour })
        if (command.writeThrough !== 'never') written.push(object)
        if (command.writeThrough !== 'now') return
        informer.writeThrough(object)
        return readsBack(object)
      }
      case 'rememberLate': {
        const object = written[command.which % (written.length || 1)]
        if (!object) return
        informer.writeThrough(object)
        return readsBack(object)
      }
      case 'remove':
        return server.remove(keyText(command.key))
      case 'deliver':
        return server.deliver(command.count)
      case 'advance':
        return await clock.advance(command.ms)
      case 'break':
        return server.breakStreams(command.how === 'ended' ? 'ended' : new ClusterError(command.how, 'broken'))
      case 'die':
        server.failure = new ClusterError('Unavailable', 'dead')
        return server.breakStreams(server.failure)
      case 'revive':
        server.failure = undefined
        return
      default:
        return server[command.do]()
    }
  }

  const started = informer.start()
  for (const command of history) {
    await perform(command)
    await settle()
    check()
  }

  server.failure = undefined
  server.releaseLists()
  server.eager = true
  server.deliver(1_000)
  // The informer opens a silent stream again within two minutes.
  await clock.advance(121_000)
  server.deliver(1_000)
  await clock.advance(1)
  await started
  check()
  expect(byName(informer.list())).toEqual(byName([...server.truth.values()].map(withoutManagedFields)))
  // These handlers throw at every other change, and still receive every change.
  if (newest.size > 1) expect(informer.state.handlerErrors).toBeGreaterThan(0)
  await informer.stop()
  expect(clock.pending).toBe(0)
  expect(server.streams.size).toBe(0)
}

describe('an informer', () => {
  test('ends with the true state after any history', async () => {
    await fc.assert(fc.asyncProperty(fc.array(step, { minLength: 10, maxLength: 120, size: 'max' }), run), {
      numRuns: 300,
    })
  })
})
