/** Facts of two members of one owner are stored separately. */
import { describe, expect, test } from 'vitest'
import type { Cluster, PersistentVolumeClaim } from '../../cluster/index.ts'
import { trustIn } from '../authority/state.ts'
import { createAuthority } from '../pki/index.ts'
import { emptyClusterState, observedIn } from '../testing/cluster-state.ts'
import { eventually, silent } from '../testing/installation.ts'
import { memberKeyOf } from './member.ts'
import { MemberMemory } from './memory.ts'
import type { ObservedMember } from './observed.ts'
import type { PodFacts } from './pod/pod.ts'
import type { PostgresAccess } from './postgres/access.ts'

const owner = 'tenant/shop'
const keys = { sealingKey: undefined, authority: trustIn(createAuthority()) }
const hosts = ['10.0.0.1', '10.0.0.2']

/** Two members, each in its own pod. Postgres at each address answers with its own system identifier and sizes. */
function twoMembers() {
  const enqueued: string[] = []
  const access = {
    observe: async ({ host }: { host: string }) => ({
      reachable: true,
      systemIdentifier: `of ${host}`,
      configuration: {},
      roles: { admin: {}, app: {}, app_read_only: {} },
    }),
    measure: async ({ host }: { host: string }) => 1000 + hosts.indexOf(host),
    measureVolume: async ({ host }: { host: string }) => 2000 + hosts.indexOf(host),
  } as unknown as PostgresAccess
  const memory = new MemberMemory({
    ...{ cluster: {} as Cluster, accessFor: () => access, keys: () => keys, logger: silent, now: Date.now },
    enqueue: key => void enqueued.push(key),
  })
  const observedOf = (number: number): ObservedMember => {
    const observed = observedIn(emptyClusterState({ storage: { sizeMb: 1024, autogrow: { maxMb: 4096 } } as never }))
    const pod = { address: hosts[number], run: `run ${number}`, ready: true, terminating: false } as PodFacts
    return { ...observed, owner: { uid: 'u', id: 'i', namespace: 'tenant', name: 'shop' } as never, number, pod }
  }
  const pass = (number: number) => memory.pass(owner, observedOf(number), keys, new AbortController().signal)
  const probe = (number: number) => memory.probe(pass(number), { awaitsPostgres: true, configurationDigest: undefined })
  const of = (number: number) => memory.prior(owner, number)
  return { memory, enqueued, pass, probe, of }
}

const systemIdentifierIn = ({ facts }: ReturnType<MemberMemory['prior']>) =>
  facts?.answer?.state === 'answered' ? facts.answer.systemIdentifier : undefined

describe('with two members of one owner', () => {
  test('answers and sizes are stored by member, and enqueue the owner', async () => {
    const { memory, enqueued, probe, of } = twoMembers()
    probe(0)
    probe(1)
    await eventually(() => [0, 1].every(number => of(number).facts?.run === `run ${number}`))
    // A size is measured only after Postgres has answered.
    probe(0)
    probe(1)
    await eventually(() => [0, 1].every(number => of(number).dataBytes === 1000 + number))
    await eventually(() => [0, 1].every(number => of(number).volumeUse === 2000 + number))
    expect([0, 1].map(number => systemIdentifierIn(of(number)))).toEqual(hosts.map(host => `of ${host}`))
    expect(new Set(enqueued)).toEqual(new Set([owner]))
    await memory.stop()
  })

  test('an outdated answer and a refused growth affect only one member', async () => {
    const { memory, probe, pass, of } = twoMembers()
    probe(0)
    probe(1)
    await eventually(() => [0, 1].every(number => of(number).facts?.run === `run ${number}`))
    memory.executor.outdateProbe(pass(1).memberKey, true)
    expect([0, 1].map(number => of(number).facts?.isOutdated)).toEqual([false, true])
    const claim = { metadata: { name: 'c', uid: 'claim 1' } } as PersistentVolumeClaim
    memory.executor.growthRefusals.refused(pass(1).memberKey, claim, 'no more')
    expect([0, 1].map(number => of(number).growthRefusal?.claim)).toEqual([undefined, 'claim 1'])
    await memory.stop()
  })

  test('all facts are deleted with their owner, and the facts of another owner stay', async () => {
    const { memory, of } = twoMembers()
    const claim = { metadata: { name: 'c', uid: 'u' } } as PersistentVolumeClaim
    const other = memberKeyOf('tenant/shop-2', 1)
    for (const number of [0, 1]) of(number)
    for (const member of [0, 1].map(number => memberKeyOf(owner, number)).concat(other))
      memory.executor.growthRefusals.refused(member, claim, 'no more')
    memory.forget(owner)
    expect([0, 1].map(number => of(number).growthRefusal)).toEqual([undefined, undefined])
    expect(memory.prior('tenant/shop-2', 1).growthRefusal).toBeDefined()
    await memory.stop()
  })
})
