/** Restart slots: when a region grants one, until when it counts, and when its owner may use it. */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import {
  apiVersion,
  desiredHash,
  desiredStateOf,
  type ManagedDatabase,
  type ManagedDatabaseStatus,
  managedDatabase,
  type Turn,
} from '../../crds/index.ts'
import { timestamp } from '../../values/time.ts'
import { type Candidate, takenTurn } from '../objects/maintenance-turn.ts'
import { databaseDraft } from '../testing/installation.ts'
import { admit, countedTurns, isOfInterest } from './admission.ts'

const start = Date.parse('2026-11-21T03:00:00Z')
const second = 1000
const minute = 60 * second
const windowId = '2026-11-21T03:00:00.000Z'
const pendingRestart = [{ reason: 'Image', message: 'm', since: '2026-01-01T00:00:00Z' }]
const spec = managedDatabase.spec.parse(databaseDraft('x').spec)
const bare: ManagedDatabase = { apiVersion, kind: 'ManagedDatabase', metadata: { name: 'x' }, spec }
const appliedHash = desiredHash(desiredStateOf(bare))

const database = (name: string, status: ManagedDatabaseStatus = {}): ManagedDatabase => ({
  ...bare,
  metadata: { name, namespace: 'n', uid: `uid-${name}` },
  status: { phase: 'available', appliedHash, pendingRestart, ...status },
})
const turn = (name: string, more: Partial<Turn> = {}): Turn => ({
  ...{
    kind: 'ManagedDatabase',
    namespace: 'n',
    name,
    uid: `uid-${name}`,
    window: windowId,
    grantedAt: timestamp(start),
  },
  ...more,
})
const notServed: ManagedDatabaseStatus = {
  conditions: [
    {
      ...{ type: 'Ready', status: 'False', reason: 'NamespaceNotServed', message: '' },
      lastTransitionTime: timestamp(start),
    },
  ],
}
const running = (window = windowId) => ({ maintenance: { restart: window, startedAt: timestamp(start) } })
const ended = (outcome: 'completed' | 'failed', window = windowId) => ({
  maintenance: { restart: window, startedAt: timestamp(start), endedAt: timestamp(start), outcome },
})

describe('an owner uses its slot', () => {
  const own = database('a')
  const take = (candidate: Candidate, turns: Turn[], others: Candidate[] = [], now = start + second) =>
    takenTurn(candidate, turns, others, { maxConcurrent: 1, now, isClockTrusted: true }) !== undefined

  test('if it is due', () => {
    expect(take(own, [turn('a')])).toBe(true)
    expect(take(database('a', ended('completed', 'an earlier window')), [turn('a')])).toBe(true)
  })

  test.each<[string, ManagedDatabase, Turn]>([
    ['the slot has the uid of an earlier object', own, turn('a', { uid: 'uid-before' })],
    ['the slot is two minutes old', own, turn('a', { grantedAt: timestamp(start + second - 2 * minute) })],
    ['the slot has a time in the future', own, turn('a', { grantedAt: timestamp(start + second + 2 * minute) })],
    ['it was restarted in this window', database('a', ended('completed')), turn('a')],
    ['it is restarting', database('a', running('before')), turn('a')],
    ['its last restart has failed', database('a', ended('failed', 'before')), turn('a')],
    ['nothing is pending', database('a', { pendingRestart: [] }), turn('a')],
    ['it does not serve', database('a', { phase: 'degraded' }), turn('a')],
    ['its namespace is not served', database('a', notServed), turn('a')],
    ['its spec is not applied', database('a', { appliedHash: 'other' }), turn('a')],
  ])('not if %s', (_, candidate, given) => {
    expect(take(candidate, [given])).toBe(false)
  })

  test('not if another object is restarting without a slot, or has failed', () => {
    expect(take(own, [turn('a')], [database('b', running())])).toBe(false)
    expect(take(own, [turn('a')], [database('b', ended('failed'))])).toBe(false)
    expect(take(own, [turn('a')], [database('b')])).toBe(true)
  })

  test('if the objects that restart or have failed are in namespaces that the operator does not manage', () => {
    for (const other of [running(), ended('failed')])
      expect(take(own, [turn('a')], [database('b', { ...other, ...notServed })])).toBe(true)
  })

  test('not while the clock is not trusted', () => {
    const facts = { maxConcurrent: 1, now: start, isClockTrusted: false }
    expect(takenTurn(own, [turn('a')], [], facts)).toBeUndefined()
  })
})

describe('a slot counts', () => {
  const isCounted = (candidate: Candidate | undefined, now: number) =>
    countedTurns([turn('a')], () => candidate, now).length === 1

  test('until it expires, one minute after its owner may last use it', () => {
    expect(isCounted(database('a'), start + 3 * minute - 1)).toBe(true)
    expect(isCounted(database('a'), start + 3 * minute)).toBe(false)
    expect(isCounted(database('a'), start - 3 * minute)).toBe(false)
    expect(isCounted(database('a', { phase: 'degraded' }), start + minute)).toBe(true)
  })

  test('until the restart has ended, if it was used', () => {
    expect(isCounted(database('a', running()), start + 9 * minute)).toBe(true)
    expect(isCounted(database('a', ended('completed')), start)).toBe(false)
    expect(isCounted(database('a', { ...running(), ...notServed }), start)).toBe(false)
  })

  test('not for another object with the same name', () => {
    expect(isCounted(undefined, start)).toBe(false)
    const other = database('a')
    expect(isCounted({ ...other, metadata: { ...other.metadata, uid: 'another' } }, start)).toBe(false)
  })

  test('against maxConcurrent, only once', () => {
    const [a, b] = [database('a'), database('b')]
    expect(admit([a, b], [turn('a')], windowId, 1).next).toEqual([])
    expect(admit([a, b], [turn('a')], windowId, 2)).toMatchObject({ next: [b], running: 1 })
    expect(admit([database('a', running()), b], [turn('a')], windowId, 2)).toMatchObject({ next: [b], running: 1 })
  })
})

test('an owner that did not use its slot is last', () => {
  const [a, b] = [database('a'), database('b')]
  expect(admit([a, b], [], windowId, 1).next).toEqual([a])
  expect(admit([a, b], [], windowId, 1, [turn('a')]).next).toEqual([b])
  expect(admit([a, b], [], windowId, 2, [turn('a')]).next).toEqual([b, a])
})

type Seen = { turns: Turn[]; version: number; databases: ManagedDatabase[] }

/**
 * A region whose controllers have delayed caches. Each controller decides by its own cache, and writes with the
 * resourceVersion in that cache. Writes are done and observed within `lateMs`.
 */
class LateRegion {
  static readonly names = ['a', 'b', 'c', 'd']
  readonly #maxConcurrent: number
  readonly #lateMs = 20 * second
  #now = start
  #turns: Turn[] = []
  #version = 1
  #databases: ManagedDatabase[]
  #region: Seen
  #owners: Seen[]
  #seenAt: number[]
  #writes: { index: number; base: ManagedDatabase; window: string; at: number }[] = []
  restarts = 0

  constructor(maxConcurrent: number) {
    this.#maxConcurrent = maxConcurrent
    this.#databases = LateRegion.names.map(name => database(name))
    this.#region = this.#snapshot()
    this.#owners = LateRegion.names.map(() => this.#snapshot())
    this.#seenAt = [this.#region, ...this.#owners].map(() => start)
  }

  #snapshot = (): Seen => ({ turns: this.#turns, version: this.#version, databases: [...this.#databases] })

  #set(index: number, status: ManagedDatabaseStatus): void {
    this.#databases[index] = database(LateRegion.names[index] ?? '', status)
    const away = this.#databases.filter(({ status: is }) => is?.maintenance && is.maintenance.endedAt === undefined)
    expect(away.length).toBeLessThanOrEqual(this.#maxConcurrent)
  }

  see(which: number): void {
    this.#seenAt[which] = this.#now
    if (which === 0) this.#region = this.#snapshot()
    else this.#owners[which - 1] = this.#snapshot()
  }

  grant(): void {
    const { turns, version, databases } = this.#region
    const counted = countedTurns(
      turns,
      ({ name }) => databases.find(({ metadata }) => metadata.name === name),
      this.#now,
    )
    const { next } = admit(databases.filter(isOfInterest), counted, windowId, this.#maxConcurrent)
    if (version !== this.#version) return
    const granted = next.map(({ metadata: { name } }) => turn(name, { grantedAt: timestamp(this.#now) }))
    this.#turns = [...counted, ...granted]
    this.#version += 1
    this.#region = { ...this.#region, turns: this.#turns, version: this.#version }
  }

  decide(index: number): void {
    const { turns, databases } = this.#owners[index] ?? this.#snapshot()
    const base = databases[index]
    if (base === undefined) return
    const others = databases.filter(one => one !== base && isOfInterest(one))
    const facts = { maxConcurrent: this.#maxConcurrent, now: this.#now, isClockTrusted: true }
    const taken = takenTurn(base, turns, others, facts)
    if (taken !== undefined) this.#writes.push({ index, base, window: taken.window, at: this.#now })
  }

  write(): void {
    const write = this.#writes.shift()
    if (write === undefined || this.#databases[write.index] !== write.base) return
    this.restarts += 1
    this.#set(write.index, running(write.window))
  }

  end(index: number): void {
    if (this.#databases[index]?.status?.maintenance?.endedAt !== undefined) return
    if (this.#databases[index]?.status?.maintenance !== undefined)
      this.#set(index, { ...ended('completed'), pendingRestart: [] })
  }

  pass(seconds: number): void {
    for (let remaining = seconds; remaining > 0; remaining -= 10) {
      this.#now += 10 * second
      while (this.#writes.some(({ at }) => this.#now - at >= this.#lateMs)) this.write()
      this.#seenAt.forEach((at, which) => {
        if (this.#now - at >= this.#lateMs) this.see(which)
      })
    }
  }

  /**
   * An operator of an earlier version leads for a moment. It starts restarts without slots, according to the state at
   * its start.
   */
  earlierVersion(index: number): void {
    while (this.#writes.length > 0) this.write()
    const chosen = this.#databases.filter((one, at) => isOfInterest(one) && (at >= index || one.status?.maintenance))
    const { next } = admit(chosen, [], windowId, this.#maxConcurrent)
    for (const { metadata } of next) this.#set(LateRegion.names.indexOf(metadata.name), running())
    this.#seenAt.forEach((_, which) => {
      this.see(which)
    })
  }
}

test('whatever the delays, there are never more concurrent restarts than the region allows', () => {
  const index = fc.integer({ min: 0, max: LateRegion.names.length - 1 })
  const step = fc.oneof(
    { weight: 4, arbitrary: fc.record({ do: fc.constant('see' as const), at: fc.integer({ min: 0, max: 4 }) }) },
    { weight: 4, arbitrary: fc.record({ do: fc.constant('grant' as const), at: index }) },
    { weight: 6, arbitrary: fc.record({ do: fc.constant('decide' as const), at: index }) },
    { weight: 3, arbitrary: fc.record({ do: fc.constant('write' as const), at: index }) },
    { weight: 2, arbitrary: fc.record({ do: fc.constant('end' as const), at: index }) },
    { weight: 1, arbitrary: fc.record({ do: fc.constant('earlierVersion' as const), at: index }) },
    { weight: 3, arbitrary: fc.record({ do: fc.constant('pass' as const), at: fc.constantFrom(10, 110, 200) }) },
  )
  let restarts = 0
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 3 }), fc.array(step, { minLength: 60, maxLength: 60 }), (most, steps) => {
      const region = new LateRegion(most)
      for (const { do: act, at } of steps) region[act](at)
      restarts += region.restarts
    }),
    { numRuns: 1500 },
  )
  expect(restarts).toBeGreaterThan(100)
})
