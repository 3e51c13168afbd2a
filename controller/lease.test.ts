import fc from 'fast-check'
import { pino } from 'pino'
import { describe, expect, test } from 'vitest'
import { type Cluster, ClusterError, type Lease } from '../cluster/index.ts'
import { SimulatedClock, settle } from '../cluster/testing/simulated-clock.ts'
import { fenced } from './fence.ts'
import { type LeaderElection, type LeaderOptions, runWithLeaderLease } from './lease.ts'

const logger = pino({ level: 'silent' })
const key = { namespace: 'system', name: 'operator' }

/**
 * The state of the network. `lost`: requests arrive, but their responses do not. `late`: requests arrive after 12 s.
 * `slow`: responses take 8 s.
 */
type Network = 'up' | 'slow' | 'refused' | 'lost' | 'hanging' | 'late'

/** One Lease, guarded by its resourceVersion. Each candidate has its own network to it. */
class LeaseServer {
  lease: Lease | undefined
  readonly clock = new SimulatedClock()
  #version = 0

  reach(network: () => Network): Cluster {
    const request = async <T>(perform: () => T): Promise<T> => {
      const state = network()
      if (state === 'refused') throw new ClusterError('Unavailable', 'refused')
      if (state === 'hanging') return await new Promise<T>(() => {})
      if (state === 'late') await new Promise<void>(resolve => this.clock.after(12_000, resolve))
      const result = perform()
      if (state === 'slow') await new Promise<void>(resolve => this.clock.after(8_000, resolve))
      if (state === 'lost') throw new ClusterError('Unavailable', 'the answer was lost')
      return result
    }
    const store = (lease: Lease): Lease => {
      this.lease = { ...lease, metadata: { ...lease.metadata, resourceVersion: String(++this.#version) } }
      return this.lease
    }
    const port = {
      get: () => request(() => this.lease),
      create: (_kind: string, lease: Lease) =>
        request(() => {
          if (this.lease) throw new ClusterError('AlreadyExists', 'it is there')
          return store(lease)
        }),
      replace: (_kind: string, lease: Lease) =>
        request(() => {
          if (!this.lease) throw new ClusterError('NotFound', 'it is not there')
          if (this.lease.metadata.resourceVersion !== lease.metadata.resourceVersion)
            throw new ClusterError('Conflict', 'changed')
          return store(lease)
        }),
    }
    // The election requests only Leases; the port's type parameter cannot express that.
    return port as unknown as Cluster
  }
}

/** A candidate process with its own clock and network. */
class Candidate {
  network: Network = 'up'
  frozenMs: number | undefined
  isUnreachable = false
  terms = 0
  /** How long its work takes to end after the signal aborted. */
  endingMs = 0
  readonly clock: SimulatedClock
  readonly election: LeaderElection
  #isLeader: (() => boolean) | undefined

  constructor(server: LeaseServer, identity: string, wrongByMs: number, options: Partial<LeaderOptions> = {}) {
    this.clock = new SimulatedClock(server.clock.now() + wrongByMs)
    this.election = runWithLeaderLease({
      cluster: server.reach(() => (this.isUnreachable ? 'hanging' : this.network)),
      ...key,
      identity,
      onStarted: async (signal, isLeader) => {
        this.terms++
        this.#isLeader = isLeader
        await new Promise<void>(resolve => signal.addEventListener('abort', () => resolve()))
        await new Promise<void>(resolve => this.clock.after(this.endingMs, resolve))
      },
      logger,
      now: this.clock.now,
      after: this.clock.after,
      ...options,
    })
  }

  /** Whether a write by the candidate would be accepted now. */
  get acts(): boolean {
    return !this.isUnreachable && this.frozenMs === undefined && (this.#isLeader?.() ?? false)
  }

  async pass(ms: number): Promise<void> {
    if (this.isUnreachable) return
    if (this.frozenMs === undefined) await this.clock.advance(ms)
    else this.frozenMs += ms
  }

  /** Unfreezes the process, with overdue timers. The process first tries to write. */
  unfreeze(): boolean {
    this.clock.freeze(this.frozenMs ?? 0)
    this.frozenMs = undefined
    return this.acts
  }
}

async function pass(server: LeaseServer, candidates: Candidate[], ms: number): Promise<void> {
  for (let left = ms; left > 0; left -= 500) {
    const step = Math.min(left, 500)
    await server.clock.advance(step)
    for (const candidate of candidates) await candidate.pass(step)
    const acting = candidates.filter(({ acts }) => acts)
    expect(acting.length, 'leaders at one time').toBeLessThanOrEqual(1)
  }
}

describe('the leader lease', () => {
  test('one of two leads; after a clean stop the other takes over at once', async () => {
    const server = new LeaseServer()
    const first = new Candidate(server, 'first', 0)
    await settle()
    const second = new Candidate(server, 'second', 90_000)
    const both = [first, second]
    await pass(server, both, 60_000)
    expect([first.acts, second.acts]).toEqual([true, false])
    expect(server.lease?.spec?.holderIdentity).toMatch(/^first_/)
    expect(server.lease?.spec?.leaseTransitions).toBe(0)

    first.endingMs = 24_000
    const stopped = first.election.stop()
    await pass(server, both, 23_000)
    expect(server.lease?.spec?.holderIdentity, 'the lease is kept until the work has ended').toMatch(/^first_/)
    await pass(server, both, 4_500)
    await stopped
    expect(second.acts).toBe(true)
    expect(server.lease?.spec?.leaseTransitions).toBe(1)
    expect(first.clock.pending).toBe(0)
    const secondStopped = second.election.stop()
    await pass(server, both, 500)
    await secondStopped
    expect(server.lease?.spec?.holderIdentity).toBe('')
  })

  test('a killed leader is replaced after its lease was unchanged for the full lease duration', async () => {
    const server = new LeaseServer()
    const first = new Candidate(server, 'first', 0)
    await settle()
    const second = new Candidate(server, 'second', -3_600_000)
    await pass(server, [first, second], 10_000)
    first.isUnreachable = true
    await pass(server, [first, second], 14_000)
    expect(second.acts).toBe(false)
    await pass(server, [first, second], 5_000)
    expect(second.acts).toBe(true)
  })

  test('a leader that was frozen must not write after it resumes, though its timers are late', async () => {
    const server = new LeaseServer()
    const first = new Candidate(server, 'first', 0)
    await settle()
    const second = new Candidate(server, 'second', 0)
    await pass(server, [first, second], 10_000)
    first.frozenMs = 0
    await pass(server, [first, second], 30_000)
    expect(second.acts).toBe(true)
    expect(first.unfreeze()).toBe(false)
    await pass(server, [first, second], 60_000)
    expect([first.acts, second.acts]).toEqual([false, true])
  })

  test('a leader that cannot reach the server steps down before another can lead, and leads again later', async () => {
    const server = new LeaseServer()
    const only = new Candidate(server, 'only', 0)
    await pass(server, [only], 5_000)
    only.network = 'hanging'
    await pass(server, [only], 7_500)
    expect(only.acts).toBe(true)
    await pass(server, [only], 3_000)
    expect(only.acts).toBe(false)
    only.network = 'up'
    await pass(server, [only], 30_000)
    expect(only.acts).toBe(true)
    expect(only.terms).toBe(2)
  })

  test('if the work fails, the lease is released and acquired again', async () => {
    const server = new LeaseServer()
    let begun = 0
    const candidate = new Candidate(server, 'only', 0, {
      onStarted: async () => {
        begun++
        if (begun < 3) throw new Error('cannot begin')
      },
    })
    await pass(server, [candidate], 20_000)
    expect(begun).toBe(3)
    expect(candidate.election.leading).toBe(true)
  })

  test('a deleted Lease is created again by its holder; a candidate that had observed it does not take over', async () => {
    const server = new LeaseServer()
    const first = new Candidate(server, 'first', 0)
    await settle()
    const second = new Candidate(server, 'second', 0)
    await pass(server, [first, second], 10_000)
    server.lease = undefined
    await pass(server, [second, first], 30_000)
    expect([first.acts, second.acts, first.terms]).toEqual([true, false, 1])
  })

  test('unsafe settings are refused', () => {
    const server = new LeaseServer()
    expect(() => new Candidate(server, 'x', 0, { leaseMs: 10_000, renewMs: 10_000 })).toThrow(
      'retryMs < renewMs < leaseMs',
    )
  })

  test('the lease term counts from the request, not from the response', async () => {
    const server = new LeaseServer()
    const first = new Candidate(server, 'first', 0)
    await settle()
    const second = new Candidate(server, 'second', 0)
    await pass(server, [first, second], 10_000)
    first.network = 'slow'
    await pass(server, [first, second], 2_500)
    first.network = 'hanging'
    const sentAt = Date.parse(server.lease?.spec?.renewTime ?? '')
    await pass(server, [first, second], sentAt + 9_500 - first.clock.now())
    expect(first.acts, 'the answer came after 8 s').toBe(true)
    await pass(server, [first, second], 1_000)
    expect(first.acts).toBe(false)
    await pass(server, [first, second], 20_000)
    expect([first.acts, second.acts]).toEqual([false, true])
  })

  const who = fc.integer({ min: 0, max: 2 })
  const network = fc.constantFrom<Network>('up', 'up', 'slow', 'refused', 'lost', 'hanging', 'late')
  const command = fc.oneof(
    { weight: 5, arbitrary: fc.record({ do: fc.constant('pass' as const), ms: fc.integer({ min: 1, max: 25_000 }) }) },
    { weight: 4, arbitrary: fc.record({ do: fc.constant('network' as const), who, network }) },
    { weight: 2, arbitrary: fc.record({ do: fc.constant('freeze' as const), who }) },
    { weight: 3, arbitrary: fc.record({ do: fc.constant('thaw' as const), who }) },
    { weight: 1, arbitrary: fc.record({ do: fc.constant('kill' as const), who }) },
    { weight: 1, arbitrary: fc.record({ do: fc.constant('restart' as const), who }) },
  )

  test('never two leaders at the same time, whatever fails; one leader again when nothing fails', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(command, { minLength: 5, maxLength: 25, size: 'max' }), async history => {
        const server = new LeaseServer()
        const wrongBy = [0, 86_400_000, -3_000]
        const candidates = wrongBy.map((ms, n) => new Candidate(server, `candidate ${n}`, ms))
        for (const step of history) {
          if (step.do === 'pass') {
            await pass(server, candidates, step.ms)
            continue
          }
          const candidate = candidates[step.who]
          if (!candidate) continue
          if (step.do === 'network') candidate.network = step.network
          else if (step.do === 'freeze') candidate.frozenMs ??= 0
          else if (step.do === 'thaw') {
            const acted = candidate.unfreeze()
            if (acted) expect(candidates.filter(other => other !== candidate && other.acts)).toEqual([])
          } else {
            if (step.do === 'restart') void candidate.election.stop()
            await settle()
            candidate.isUnreachable = true
            candidates[step.who] = new Candidate(server, `candidate ${step.who}`, wrongBy[step.who] ?? 0)
          }
        }
        for (const candidate of candidates) {
          candidate.network = 'up'
          if (candidate.frozenMs !== undefined) candidate.unfreeze()
        }
        await pass(server, candidates, 60_000)
        expect(candidates.filter(({ acts }) => acts)).toHaveLength(1)
        const stopped = Promise.all(candidates.map(({ election }) => election.stop()))
        await pass(server, candidates, 5_000)
        await stopped
        for (const { clock } of candidates) expect(clock.pending).toBe(0)
      }),
      { numRuns: 60 },
    )
  })
})

describe('the fence', () => {
  test('passes reads; refuses every write once the signal aborted or the lease is not held', async () => {
    const calls: string[] = []
    const called = (name: string) => async () => {
      calls.push(name)
      return { items: [], resourceVersion: '1' }
    }
    const names = ['get', 'list', 'watch', 'logs', 'create', 'replace', 'apply', 'replaceStatus', 'delete'] as const
    const plain = Object.fromEntries(names.map(name => [name, called(name)])) as unknown as Cluster
    const controller = new AbortController()
    let isLeader = true
    const cluster = fenced(plain, controller.signal, () => isLeader)
    const lease: Lease = { apiVersion: 'coordination.k8s.io/v1', kind: 'Lease', metadata: { name: 'x' } }
    const writes = [
      () => cluster.create('Lease', lease),
      () => cluster.replace('Lease', lease),
      () => cluster.apply('Lease', lease),
      () => cluster.replaceStatus('Lease', lease),
      () => cluster.delete('Lease', key),
    ]
    for (const write of writes) await write()
    expect(calls).toEqual(['create', 'replace', 'apply', 'replaceStatus', 'delete'])
    isLeader = false
    for (const write of writes) await expect(write()).rejects.toMatchObject({ reason: 'Unavailable' })
    isLeader = true
    controller.abort()
    for (const write of writes) await expect(write()).rejects.toMatchObject({ reason: 'Unavailable' })
    await cluster.get('Lease', key)
    await cluster.list('Lease')
    await cluster.logs(key)
    cluster.watch('Lease', { resourceVersion: '1', signal: controller.signal })
    expect(calls.slice(5)).toEqual(['get', 'list', 'logs', 'watch'])
  })
})
