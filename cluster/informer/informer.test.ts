import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { pino } from 'pino'
import { afterEach, describe, expect, test } from 'vitest'
import { ClusterError } from '../errors.ts'
import type { ConfigMap } from '../kinds.ts'
import { ScriptedCluster } from '../testing/scripted-cluster.ts'
import { SimulatedClock, settle } from '../testing/simulated-clock.ts'
import type { Change } from './cache.ts'
import { createInformer, type Informer, type InformerOptions, withoutManagedFields } from './informer.ts'
import { keyText } from './key.ts'

const logger = pino({ level: 'silent' })
const a = { namespace: 'one', name: 'a' }
const b = { namespace: 'two', name: 'b' }
const unavailable = new ClusterError('Unavailable', 'connection refused')

const running = new Set<{ informer: Informer<'ConfigMap'>; clock: SimulatedClock }>()
afterEach(async () => {
  for (const { informer, clock } of running) {
    await informer.stop()
    expect(clock.pending, 'timers left behind').toBe(0)
  }
  running.clear()
})

function open(options: Partial<InformerOptions<'ConfigMap'>> & { eager?: boolean } = {}) {
  const clock = new SimulatedClock()
  const server = new ScriptedCluster({ eager: options.eager ?? true })
  const { eager: _, ...rest } = options
  const informer = createInformer(server.asCluster(), 'ConfigMap', {
    indexes: { colour: object => (object.data?.colour ? [object.data.colour] : []) },
    logger,
    now: clock.now,
    after: clock.after,
    ...rest,
  })
  running.add({ informer, clock })
  return { clock, server, informer }
}

const versions = (informer: Informer<'ConfigMap'>) =>
  Object.fromEntries(informer.list().map(object => [keyText(object.metadata), object.metadata.resourceVersion]))

describe('watching', () => {
  test('start resolves once all pages are in; changes follow', async () => {
    const { server, informer } = open()
    for (let n = 0; n < 10; n++) server.write({ namespace: 'one', name: `n${n}` }, { colour: 'red' })
    await informer.start()
    expect(informer.synced).toBe(true)
    expect(informer.list()).toHaveLength(10)
    expect(server.lists).toBe(4)
    server.write(b, { colour: 'blue' })
    server.remove('one/n3')
    await settle()
    expect(informer.list({ namespace: 'two' }).map(({ metadata }) => metadata.name)).toEqual(['b'])
    expect(informer.get({ namespace: 'one', name: 'n3' })).toBeUndefined()
    expect(informer.byIndex('colour', 'red')).toHaveLength(9)
    expect(informer.byIndex('colour', 'blue')).toHaveLength(1)
    expect(() => informer.byIndex('size', '1')).toThrow('no index "size"')
    expect(informer.state).toMatchObject({ objects: 10, lists: 1, events: 2, failures: 0, failingSince: undefined })
  })

  test('managedFields are dropped; the rest shares memory with the response', async () => {
    const { server, informer } = open()
    const written = server.write(a, { colour: 'red' })
    await informer.start()
    expect(informer.get(a)?.metadata.managedFields).toBeUndefined()
    expect(informer.get(a)?.data).toBe(written.data)
    const plain = informer.get(a)
    expect(plain && withoutManagedFields(plain)).toBe(plain)
  })

  test('a replaced object can be garbage-collected', async () => {
    const { server, informer } = open()
    server.write(a, { colour: 'red' })
    await informer.start()
    const first = new WeakRef(informer.get(a)?.data ?? {})
    server.write(a, { colour: 'blue' })
    await settle()
    server.forgetHistory()
    server.write(b, {})
    await settle()
    setFlagsFromString('--expose-gc')
    runInNewContext('gc')()
    expect(informer.get(a)?.data?.colour).toBe('blue')
    expect(first.deref()).toBeUndefined()
  })

  test('if the server does not answer, at the start or later, the informer continues, and reports since when it fails', async () => {
    const { clock, server, informer } = open()
    server.failure = unavailable
    server.write(a, {})
    let synced = false
    const started = informer.start().then(() => {
      synced = true
    })
    await clock.advance(60_000)
    expect(synced).toBe(false)
    expect(informer.state.failingSince).toBeLessThan(clock.now() - 50_000)
    expect(informer.state.failures).toBeGreaterThan(5)
    expect(informer.state.failures).toBeLessThan(20)
    server.failure = undefined
    await clock.advance(31_000)
    await started
    await clock.advance(6_000)
    expect(informer.state.failingSince).toBeUndefined()

    server.failure = unavailable
    server.breakStreams(unavailable)
    server.write(b, {})
    await clock.advance(3_600_000)
    expect(informer.get(b)).toBeUndefined()
    server.failure = undefined
    await clock.advance(31_000)
    expect(informer.get(b)).toBeDefined()
  })

  test('a broken stream is resumed from the last event, without a list', async () => {
    const { clock, server, informer } = open()
    await informer.start()
    server.write(a, {})
    await settle()
    server.breakStreams('ended')
    await settle()
    server.write(b, {})
    await clock.advance(200)
    expect(informer.get(b)).toBeDefined()
    expect(server.lists).toBe(1)
  })

  test('a bookmark advances the version: an older version may expire', async () => {
    const { clock, server, informer } = open({ eager: false })
    await informer.start()
    await settle()
    server.version += 50
    server.bookmark()
    await settle()
    server.compact()
    server.breakStreams('ended')
    await clock.advance(200)
    expect(server.lists).toBe(1)
    expect(server.streams.size).toBe(1)
  })

  test('Expired leads to a new list, and objects missing in it are deletions', async () => {
    const { clock, server, informer } = open({ eager: false })
    const seen: Change<ConfigMap>[] = []
    server.write(a, { colour: 'red' })
    await informer.start()
    await settle()
    informer.onChange(change => seen.push(change))
    server.remove('one/a')
    server.write(b, {})
    server.compact()
    await clock.advance(200)
    expect(versions(informer)).toEqual({ 'two/b': '103' })
    expect(seen.map(({ type, object }) => `${type} ${object.metadata.name}`)).toEqual(['set a', 'set b', 'deleted a'])
    expect(seen[2]?.previous?.data?.colour).toBe('red')
    expect(informer.byIndex('colour', 'red')).toEqual([])
  })

  test('lower versions from a server that was restored from a backup are accepted', async () => {
    const { clock, server, informer } = open()
    server.write(a, { colour: 'red' })
    await informer.start()
    await settle()
    server.goBackTo(50)
    server.write(a, { colour: 'old' })
    await clock.advance(30_000)
    expect(informer.get(a)?.data?.colour).toBe('old')
    expect(informer.list()).toHaveLength(1)
  })

  test('a silent stream is opened again, and delivers the events that it missed', async () => {
    const { clock, server, informer } = open()
    await informer.start()
    // Bookmarks of kube-apiserver are up to 75 s apart.
    for (let turn = 0; turn < 3; turn++) {
      await clock.advance(75_000)
      server.bookmark()
      await settle()
    }
    expect(server.watches).toBe(1)
    server.fallSilent()
    server.write(a, { colour: 'red' })
    await clock.advance(89_000)
    expect([server.watches, informer.get(a)]).toEqual([1, undefined])
    await clock.advance(32_000)
    expect(server.watches).toBe(2)
    expect(informer.get(a)?.data?.colour).toBe('red')
    expect(informer.state).toMatchObject({ lists: 1, failures: 0 })
  })

  test('stop before the first list rejects start; after stop nothing changes', async () => {
    const { server, informer } = open()
    server.failure = unavailable
    const started = informer.start()
    await settle()
    await informer.stop()
    await expect(started).rejects.toMatchObject({ reason: 'Unavailable' })
    await expect(open().informer.stop()).resolves.toBeUndefined()
  })
})

describe('handlers', () => {
  test('a handler that throws or rejects is counted, and affects neither the stream nor other handlers', async () => {
    const { server, informer } = open()
    const seen: string[] = []
    informer.onChange(() => {
      throw new Error('mine')
    })
    informer.onChange(async () => {
      throw new Error('mine too')
    })
    informer.onChange(({ object }) => seen.push(object.metadata.name))
    server.write(a, {})
    await informer.start()
    server.write(b, {})
    await settle()
    expect(seen).toEqual(['a', 'b'])
    expect(informer.state.handlerErrors).toBe(4)
  })

  test('an exception of an index function or a transform affects only that function', async () => {
    const { server, informer } = open({
      indexes: {
        bad: () => {
          throw new Error('bad index')
        },
        name: object => [object.metadata.name],
      },
      transform: () => {
        throw new Error('bad transform')
      },
    })
    server.write(a, {})
    await informer.start()
    server.remove('one/a')
    server.write(b, {})
    await settle()
    expect(informer.byIndex('name', 'b')).toHaveLength(1)
    expect(informer.byIndex('bad', 'b')).toEqual([])
  })

  test('a late handler first receives the existing objects; an unsubscribed handler receives nothing', async () => {
    const { server, informer } = open()
    server.write(a, {})
    await informer.start()
    const seen: string[] = []
    const leave = informer.onChange(({ object }) => seen.push(object.metadata.name))
    server.write(b, {})
    await settle()
    leave()
    server.write(a, {})
    await settle()
    expect(seen).toEqual(['a', 'b'])
  })

  test('a change caused by a handler is delivered after the change being handled, for every handler', async () => {
    const { server, informer } = open()
    await informer.start()
    const seen: (string | undefined)[] = []
    informer.onChange(({ object }) => {
      if (object.data?.step === '1') informer.writeThrough(server.write(a, { step: '2' }))
    })
    informer.onChange(({ object }) => seen.push(object.data?.step))
    server.write(a, { step: '1' })
    await settle()
    expect(seen).toEqual(['1', '2'])
  })
})

describe('write-through', () => {
  test('our own write is visible at once, and older events do not undo it', async () => {
    const { server, informer } = open({ eager: false })
    await informer.start()
    await settle()
    server.write(a, { step: '1' })
    const written = server.write(a, { step: '2' })
    informer.writeThrough(written)
    expect(informer.get(a)?.data?.step).toBe('2')
    server.deliver(1)
    await settle()
    expect(informer.get(a)?.data?.step).toBe('2')
    server.deliver(1)
    await settle()
    expect(informer.get(a)?.data?.step).toBe('2')
  })

  test('an object known to be deleted does not reappear', async () => {
    const { server, informer } = open()
    await informer.start()
    const written = server.write(a, {})
    server.remove('one/a')
    await settle()
    informer.writeThrough(written)
    expect(informer.get(a)).toBeUndefined()
  })

  test('the deletion of an earlier object of the same name does not remove the new object', async () => {
    const { server, informer } = open({ eager: false })
    server.write(a, { step: 'old' })
    await informer.start()
    await settle()
    server.remove('one/a')
    informer.writeThrough(server.write(a, { step: 'new' }))
    server.deliver(1)
    await settle()
    expect(informer.get(a)?.data?.step).toBe('new')
    server.remove('one/a')
    server.deliver(9)
    await settle()
    expect(informer.get(a)).toBeUndefined()
  })

  test('versions are compared as numbers', async () => {
    const { server, informer } = open({ eager: false })
    server.version = 998
    const old = server.write(a, { step: '999' })
    const written = server.write(a, { step: '1000' })
    informer.writeThrough(written)
    informer.writeThrough(old)
    expect(informer.get(a)?.data?.step).toBe('1000')
  })

  test("objects outside the informer's selection are ignored", async () => {
    const { server, informer } = open({ namespace: 'one', labels: { colour: 'red' } })
    await informer.start()
    informer.writeThrough(server.write({ namespace: 'two', name: 'x' }, { colour: 'red' }))
    informer.writeThrough(server.write({ namespace: 'one', name: 'y' }, { colour: 'blue' }))
    informer.writeThrough(server.write({ namespace: 'one', name: 'z' }, { colour: 'red' }))
    expect(Object.keys(versions(informer))).toEqual(['one/z'])
  })
})

describe('waitFor', () => {
  test('checks at once, then at each change of that object, and ends at the timeout', async () => {
    const { clock, server, informer } = open()
    server.write(a, { step: '1' })
    await informer.start()
    const isAt = (step: string) => (object: ConfigMap | undefined) => object?.data?.step === step
    expect(await informer.waitFor(a, isAt('1'), { timeoutMs: 1_000 })).toMatchObject({ satisfied: true })

    const second = informer.waitFor(a, isAt('2'), { timeoutMs: 1_000 })
    const deleted = informer.waitFor(a, object => object === undefined, { timeoutMs: 5_000 })
    const never = informer.waitFor(a, isAt('9'), { timeoutMs: 1_000 })
    server.write(a, { step: '2' })
    await settle()
    expect((await second).object?.data?.step).toBe('2')
    await clock.advance(1_000)
    expect(await never).toMatchObject({ satisfied: false, object: { data: { step: '2' } } })
    server.remove('one/a')
    await settle()
    expect(await deleted).toEqual({ satisfied: true, object: undefined })
  })

  test('an abort, a timeout of 0, or the end of the informer ends it', async () => {
    const { informer } = open()
    await informer.start()
    const never = () => false
    const controller = new AbortController()
    const aborted = informer.waitFor(a, never, { timeoutMs: 1_000, signal: controller.signal })
    const stopped = informer.waitFor(a, never, { timeoutMs: 1_000 })
    await settle()
    controller.abort()
    expect(await aborted).toEqual({ satisfied: false, object: undefined })
    expect(await informer.waitFor(a, never, { timeoutMs: 0 })).toEqual({ satisfied: false, object: undefined })
    await informer.stop()
    expect(await stopped).toEqual({ satisfied: false, object: undefined })
    expect(await informer.waitFor(a, never, { timeoutMs: 9 })).toEqual({ satisfied: false, object: undefined })
  })

  test('a predicate that throws rejects only its own wait', async () => {
    const { server, informer } = open()
    await informer.start()
    const broken = informer.waitFor(
      a,
      object => {
        if (object) throw new Error('broken')
        return false
      },
      { timeoutMs: 1_000 },
    )
    const fine = informer.waitFor(a, object => object !== undefined, { timeoutMs: 1_000 })
    const failure = expect(broken).rejects.toThrow('broken')
    server.write(a, {})
    await settle()
    await failure
    expect((await fine).satisfied).toBe(true)
  })
})
