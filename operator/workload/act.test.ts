/** Actions, done to a cluster that has changed since they were planned: nothing that is another's, or newer, is touched. */
import { randomBytes } from 'node:crypto'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import {
  type Cluster,
  ClusterError,
  type Draft,
  type KindName,
  type PersistentVolume,
  type Secret,
} from '../../cluster/index.ts'
import { childNames, type ManagedDatabase } from '../../crds/index.ts'
import { trustIn } from '../authority/state.ts'
import { createDriftHistory } from '../children/drift-history.ts'
import { fingerprintOf, loadedAnnotation } from '../endpoint/certificate.ts'
import { credentialsDraft, openCredentials, rotated } from '../endpoint/credentials.ts'
import type { Observed } from '../managed-database/observed.ts'
import type { PostgresAccess } from '../member/postgres/access.ts'
import { createGrowthRefusals } from '../member/storage/growth-refusals.ts'
import { reclaimPolicyAnnotation } from '../member/storage/persistent-volume.ts'
import { NameTakenError } from '../objects/name-taken.ts'
import { childMetadata, type Owner, ownerMarks, ownerOf, ownerUidOf } from '../objects/ownership.ts'
import { createAuthority } from '../pki/index.ts'
import type { ReadDesiredRoles } from '../postgres/administrator.ts'
import { databaseDraft, type Installation, openInstallation, testNamespace } from '../testing/installation.ts'
import { emptyWorld, observedIn } from '../testing/plan-world.ts'
import { type Done, type Executor, type Pass, perform } from './act.ts'
import type { Action } from './actions.ts'

let installation: Installation
let cluster: Cluster
let count = 0
/** A new database, another one, and their ids. */
let database: ManagedDatabase
let owner: Owner
let other: Owner
beforeAll(async () => {
  installation = await openInstallation({ fakes: false })
  cluster = installation.cluster
})
afterAll(() => installation.close())
beforeEach(async () => {
  count += 1
  const idOf = (kind: number) => `${String(count).padStart(8, '0')}-0000-4000-8000-00000000000${kind}`
  const made = async (name: string, id: string) =>
    cluster.create('ManagedDatabase', databaseDraft(`${name}${count}`, {}, id))
  database = await made('one', idOf(1))
  owner = ownerOf(database, idOf(1))
  other = ownerOf(await made('two', idOf(2)), idOf(2))
})

const key = (name: string) => ({ namespace: testNamespace, name })

const claimDraft = (of: Owner, name = childNames.claim(of.id, 1)): Draft<'PersistentVolumeClaim'> => ({
  apiVersion: 'v1',
  kind: 'PersistentVolumeClaim',
  metadata: childMetadata(of, name, 'postgres'),
  spec: { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '1Gi' } }, volumeName: `pv-${count}` },
})
const mapDraft = (of: Owner, name: string, data: Record<string, string> = {}): Draft<'ConfigMap'> => ({
  apiVersion: 'v1',
  kind: 'ConfigMap',
  metadata: childMetadata(of, name, 'postgres'),
  data,
})
const podDraft = (of: Owner): Draft<'Pod'> => ({
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: childMetadata(of, childNames.pod(of.id, 1), 'postgres'),
  spec: { containers: [{ name: 'postgres', image: 'postgres:18' }] },
})
const volumeDraft = (policy = 'Delete'): Draft<'PersistentVolume'> => ({
  apiVersion: 'v1',
  kind: 'PersistentVolume',
  metadata: { name: `pv-${count}` },
  spec: {
    capacity: { storage: '1Gi' },
    accessModes: ['ReadWriteOnce'],
    persistentVolumeReclaimPolicy: policy,
    hostPath: { path: '/nowhere' },
  },
})

type Options = {
  observed?: Partial<Observed>
  children?: Partial<Observed['children']>
  executor?: Partial<Executor>
  pass?: Partial<Pass>
}

function passOf({ observed = {}, children = {}, executor = {}, pass = {} }: Options = {}) {
  const empty = observedIn(emptyWorld())
  const outdated: [name: string, failed: boolean][] = []
  const whole: Executor = {
    cluster,
    ports: { claim: async () => {}, leave: async () => {} },
    growthRefusals: createGrowthRefusals(() => 0),
    drifts: createDriftHistory(() => 0),
    now: Date.now,
    keys: () => ({ sealingKey: undefined, authority: undefined }),
    outdateProbe: (name, failed) => outdated.push([name, failed]),
    ...executor,
  }
  const facts = { ...empty, instance: database, owner, ...observed, children: { ...empty.children, ...children } }
  const given: Pass = {
    key: `${testNamespace}/${database.metadata.name}`,
    keys: { sealingKey: undefined, authority: undefined },
    observed: facts,
    passwords: undefined,
    access: undefined,
    target: undefined,
    signal: new AbortController().signal,
    ...pass,
  }
  return { outdated, executor: whole, do: (action: Action): Promise<Done> => perform(whole, given, action) }
}

describe('what is deleted', () => {
  const deletion = (kind: KindName, name: string, uid: string, resourceVersion?: string): Action => ({
    ...{ do: 'delete', kind, name, namespace: testNamespace, uid, resourceVersion },
  })

  test('is what was seen, and not what has its name by now', async () => {
    const first = await cluster.create('ConfigMap', mapDraft(owner, `map-${count}`))
    await cluster.delete('ConfigMap', key(`map-${count}`))
    const second = await cluster.create('ConfigMap', mapDraft(other, `map-${count}`))
    const gone = deletion('ConfigMap', `map-${count}`, first.metadata.uid ?? '')
    await expect(passOf().do(gone)).rejects.toThrow(expect.objectContaining({ reason: 'Conflict' }))
    expect(await cluster.get('ConfigMap', key(`map-${count}`))).toEqual(second)
    expect(await passOf().do(deletion('ConfigMap', `map-${count}`, second.metadata.uid ?? ''))).toBe('done')
    expect(await cluster.get('ConfigMap', key(`map-${count}`))).toBeUndefined()
  })

  test('is as it was seen, where that counts', async () => {
    const seen = await cluster.create('ConfigMap', mapDraft(owner, `map-${count}`))
    const now = await cluster.replace('ConfigMap', { ...seen, data: { is: 'new' } })
    const { uid = '', resourceVersion } = seen.metadata
    await expect(passOf().do(deletion('ConfigMap', `map-${count}`, uid, resourceVersion))).rejects.toThrow(
      expect.objectContaining({ reason: 'Conflict' }),
    )
    const asIs = deletion('ConfigMap', `map-${count}`, uid, now.metadata.resourceVersion)
    expect(await passOf().do(asIs)).toBe('done')
    expect(await cluster.get('ConfigMap', key(`map-${count}`))).toBeUndefined()
  })
})

/** Keeps what is deleted until it is taken off. */
const holding = 'test.example/held'

describe('a pod', () => {
  /** A database that runs on a volume on record, as the caches have it. */
  async function running() {
    const volume = await cluster.create('PersistentVolume', volumeDraft())
    const protectedClaim = claimDraft(owner)
    const claim = await cluster.create('PersistentVolumeClaim', {
      ...protectedClaim,
      metadata: { ...protectedClaim.metadata, finalizers: [holding] },
    })
    const pod = await cluster.create('Pod', podDraft(owner))
    const record = { claim: claim.metadata.name, uid: claim.metadata.uid ?? '', volumeName: volume.metadata.name }
    const instance = { ...database, status: { volume: { ...record, systemIdentifier: '1' } } }
    const { name, uid = '' } = pod.metadata
    const facts = { name, uid, terminating: false } as NonNullable<Observed['pod']>
    const options = { observed: { instance, database: instance, pod: facts }, children: { claim, pod } }
    const stops: [string, Action][] = [
      ['deleted', { do: 'delete', kind: 'Pod', name, namespace: testNamespace, uid }],
      ['scaled away', { do: 'apply', kind: 'StatefulSet', draft: statefulSet(0) }],
    ]
    const isStopped = async () => {
      const set = await cluster.get('StatefulSet', key(childNames.statefulSet(owner.id, 1)))
      return (await cluster.get('Pod', key(name))) === undefined || set !== undefined
    }
    return { volume, claim, options, stops, isStopped }
  }
  const statefulSet = (replicas: number): Draft<'StatefulSet'> => ({
    apiVersion: 'apps/v1',
    kind: 'StatefulSet',
    metadata: childMetadata(owner, childNames.statefulSet(owner.id, 1), 'postgres'),
    spec: {
      replicas,
      serviceName: 'one',
      selector: { matchLabels: { a: 'b' } },
      template: {
        metadata: { labels: { a: 'b' } },
        spec: { containers: [{ name: 'postgres', image: 'postgres:18' }] },
      },
    },
  })

  test.each([0, 1])('is stopped while claim and volume are what they were (%i)', async which => {
    const { options, stops, isStopped } = await running()
    expect(await passOf(options).do(stops[which]?.[1] as Action)).toBe('done')
    expect(await isStopped()).toBe(true)
  })

  const changes: [string, (found: Awaited<ReturnType<typeof running>>) => Promise<unknown>][] = [
    [
      'the claim is being deleted',
      async ({ claim }) => {
        await cluster.delete('PersistentVolumeClaim', claim.metadata)
        expect((await cluster.get('PersistentVolumeClaim', claim.metadata))?.metadata.uid).toBe(claim.metadata.uid)
      },
    ],
    [
      'the claim is gone',
      async ({ claim }) => {
        await cluster.replace('PersistentVolumeClaim', { ...claim, metadata: { ...claim.metadata, finalizers: [] } })
        await cluster.delete('PersistentVolumeClaim', claim.metadata)
      },
    ],
    [
      'another claim has its name',
      async ({ claim }) => {
        await cluster.replace('PersistentVolumeClaim', { ...claim, metadata: { ...claim.metadata, finalizers: [] } })
        await cluster.delete('PersistentVolumeClaim', claim.metadata)
        await cluster.create('PersistentVolumeClaim', claimDraft(other, claim.metadata.name))
      },
    ],
    [
      'the volume is being deleted',
      async ({ volume }) => {
        const metadata = { ...volume.metadata, finalizers: [holding] }
        await cluster.replace('PersistentVolume', { ...volume, metadata })
        await cluster.delete('PersistentVolume', { name: volume.metadata.name })
        expect(await cluster.get('PersistentVolume', { name: volume.metadata.name })).toBeDefined()
      },
    ],
    ['the volume is gone', ({ volume }) => cluster.delete('PersistentVolume', { name: volume.metadata.name })],
  ]
  for (const [what, change] of changes)
    test.each([0, 1])(`is not stopped (%i) once ${what}, though no cache says so yet`, async which => {
      const found = await running()
      await change(found)
      await expect(passOf(found.options).do(found.stops[which]?.[1] as Action)).rejects.toThrow(
        expect.objectContaining({ reason: 'Conflict' }),
      )
      expect(await found.isStopped()).toBe(false)
      const deleted = { ...database, metadata: { ...database.metadata, deletionTimestamp: '2026-01-01T00:00:00Z' } }
      const instance = { ...found.options.observed.instance, metadata: deleted.metadata }
      const leaving = passOf({ ...found.options, observed: { ...found.options.observed, instance } })
      expect(await leaving.do(found.stops[0]?.[1] as Action), 'a database that goes stops all the same').toBe('done')
    })

  test('is started whatever became of the claim: nothing is lost by that', async () => {
    const found = await running()
    await cluster.delete('PersistentVolumeClaim', found.claim.metadata)
    expect(await passOf(found.options).do({ do: 'apply', kind: 'StatefulSet', draft: statefulSet(1) })).toBe('done')
  })

  test('that there is none of is stopped whatever became of the claim', async () => {
    const found = await running()
    await cluster.delete('PersistentVolumeClaim', found.claim.metadata)
    const { observed } = found.options
    const without = passOf({ ...found.options, observed: { ...observed, pod: undefined } })
    expect(await without.do(found.stops[1]?.[1] as Action)).toBe('done')
  })

  test('is not what another deletion waits for', async () => {
    const found = await running()
    await cluster.delete('PersistentVolumeClaim', found.claim.metadata)
    const { metadata } = await cluster.create('ConfigMap', mapDraft(owner, `map-${count}`))
    const { name, uid = '' } = metadata
    const deletion = { do: 'delete', kind: 'ConfigMap', name, namespace: testNamespace, uid } as const
    expect(await passOf(found.options).do(deletion)).toBe('done')
  })

  test('of a database that has no volume on record is stopped without a look at one', async () => {
    const found = await running()
    await cluster.delete('PersistentVolumeClaim', found.claim.metadata)
    const { observed } = found.options
    const without = passOf({ ...found.options, observed: { ...observed, instance: database } })
    expect(await without.do(found.stops[0]?.[1] as Action)).toBe('done')
  })

  test('whose volume is known not to be safe is stopped as the plan says', async () => {
    const found = await running()
    await cluster.delete('PersistentVolumeClaim', found.claim.metadata)
    const claim = await cluster.get('PersistentVolumeClaim', found.claim.metadata)
    const known = passOf({ ...found.options, children: { claim } })
    expect(await known.do(found.stops[0]?.[1] as Action)).toBe('done')
  })

  test('whose claim has no volume yet is stopped', async () => {
    const { options, stops, claim } = await running()
    const { volumeName: _, ...spec } = claim.spec ?? {}
    expect(await passOf({ ...options, children: { claim: { ...claim, spec } } }).do(stops[0]?.[1] as Action)).toBe(
      'done',
    )
  })
})

describe('marks', () => {
  const marked = (object: Awaited<ReturnType<typeof foreign>>) => ({
    ...object,
    metadata: { ...object.metadata, annotations: ownerMarks(owner) },
  })
  const foreign = (of: Owner) => cluster.create('ConfigMap', mapDraft(of, `map-${count}`))

  test('are written on what no living database has', async () => {
    const found = await foreign({ ...other, uid: 'one-that-was' })
    expect(await passOf().do({ do: 'mark', kind: 'ConfigMap', object: marked(found) })).toBe('done')
    const now = await cluster.get('ConfigMap', key(`map-${count}`))
    expect(now && ownerUidOf(now)).toBe(owner.uid)
  })

  test('are not written on what a living database has', async () => {
    const found = await foreign(other)
    await expect(passOf().do({ do: 'mark', kind: 'ConfigMap', object: marked(found) })).rejects.toThrow(NameTakenError)
    expect(await cluster.get('ConfigMap', key(`map-${count}`))).toEqual(found)
  })

  test('are written on no other object of that name, and make none', async () => {
    const found = await foreign({ ...other, uid: 'one-that-was' })
    await cluster.delete('ConfigMap', key(`map-${count}`))
    expect(await passOf().do({ do: 'mark', kind: 'ConfigMap', object: marked(found) })).toBe('done')
    expect(await cluster.get('ConfigMap', key(`map-${count}`))).toBeUndefined()
    const anew = await foreign({ ...other, uid: 'one-that-was' })
    expect(await passOf().do({ do: 'mark', kind: 'ConfigMap', object: marked(found) })).toBe('done')
    expect(await cluster.get('ConfigMap', key(`map-${count}`))).toEqual(anew)
  })
})

describe('a volume', () => {
  const retain = (volume: PersistentVolume, uid = volume.metadata.uid ?? ''): Action => ({
    ...{ do: 'change-volume', name: volume.metadata.name, uid, change: { to: 'retain', owner } },
  })
  const copy = (volume: PersistentVolume, uid = volume.metadata.uid ?? ''): Action => ({
    ...{ do: 'copy-volume', from: volume.metadata.name, uid, name: `copy-${count}`, owner },
  })
  const get = (name: string) => cluster.get('PersistentVolume', { name })

  test('is changed as it stands in the cluster', async () => {
    const volume = await cluster.create('PersistentVolume', volumeDraft())
    expect(await passOf().do(retain(volume))).toBe('done')
    const kept = await get(`pv-${count}`)
    expect(kept?.spec?.persistentVolumeReclaimPolicy).toBe('Retain')
    expect(kept?.metadata.annotations?.[reclaimPolicyAnnotation]).toBe('Delete')
    expect(await passOf().do(retain(volume)), 'and not again').toBe('done')
    expect((await get(`pv-${count}`))?.metadata.resourceVersion).toBe(kept?.metadata.resourceVersion)
  })

  test('that is another by now, or gone, is neither changed nor copied', async () => {
    const volume = await cluster.create('PersistentVolume', volumeDraft())
    expect(await passOf().do(retain(volume, 'another'))).toBe('done')
    expect(await passOf().do(copy(volume, 'another'))).toBe('done')
    expect(await get(`pv-${count}`)).toEqual(volume)
    const gone = { ...volume, metadata: { ...volume.metadata, name: 'gone' } }
    expect([await passOf().do(retain(gone)), await passOf().do(copy(gone))]).toEqual(['done', 'done'])
    expect(await get(`copy-${count}`)).toBeUndefined()
  })

  describe('that is retained', () => {
    const retained = (claimUid: string | undefined): Draft<'PersistentVolume'> => {
      const { metadata, spec, ...draft } = volumeDraft('Retain')
      const claimRef = {
        namespace: testNamespace,
        name: childNames.claim(owner.id, 1),
        ...(claimUid && { uid: claimUid }),
      }
      const annotations = { [reclaimPolicyAnnotation]: 'Delete' }
      return { ...draft, metadata: { ...metadata, annotations }, spec: { ...spec, claimRef } }
    }
    const giveBack = ({ metadata }: PersistentVolume, claimUid?: string): Action => ({
      do: 'change-volume',
      name: metadata.name,
      uid: metadata.uid ?? '',
      change: { to: 'give-back', claimUid },
    })
    const policy = async () => (await get(`pv-${count}`))?.spec?.persistentVolumeReclaimPolicy

    test('gets its reclaim policy back while its claim stays', async () => {
      const claim = await cluster.create('PersistentVolumeClaim', claimDraft(owner))
      const volume = await cluster.create('PersistentVolume', retained(claim.metadata.uid))
      expect(await passOf().do(giveBack(volume))).toBe('done')
      expect(await policy()).toBe('Delete')
    })

    test('stays retained where a cache has not heard yet that its claim is being deleted, or is gone', async () => {
      const draft = claimDraft(owner)
      const kept = { ...draft, metadata: { ...draft.metadata, finalizers: ['kubernetes.io/pvc-protection'] } }
      const claim = await cluster.create('PersistentVolumeClaim', kept)
      const volume = await cluster.create('PersistentVolume', retained(claim.metadata.uid))
      await cluster.delete('PersistentVolumeClaim', claim.metadata)
      await expect(passOf().do(giveBack(volume))).rejects.toThrow('is not what it was')
      const going = await cluster.get('PersistentVolumeClaim', claim.metadata)
      if (going)
        await cluster.replace('PersistentVolumeClaim', { ...going, metadata: { ...going.metadata, finalizers: [] } })
      await expect(passOf().do(giveBack(volume))).rejects.toThrow('is not what it was')
      await cluster.create('PersistentVolumeClaim', draft)
      await expect(passOf().do(giveBack(volume)), 'another claim of its name').rejects.toThrow('is not what it was')
      expect(await policy()).toBe('Retain')
    })

    test('gets its reclaim policy back without a claim where its owner is torn down', async () => {
      const volume = await cluster.create('PersistentVolume', retained('one-that-was'))
      expect(await passOf().do(giveBack(volume, 'one-that-was'))).toBe('done')
      expect(await policy()).toBe('Delete')
    })
  })

  test('is copied as it stands in the cluster', async () => {
    const volume = await cluster.create('PersistentVolume', volumeDraft())
    expect(await passOf().do(copy(volume))).toBe('done')
    const made = await get(`copy-${count}`)
    expect(made?.spec).toMatchObject({ hostPath: { path: '/nowhere' }, persistentVolumeReclaimPolicy: 'Retain' })
    expect(made && ownerUidOf(made)).toBe(owner.uid)
  })
})

describe('what is made once', () => {
  const sealingKey = randomBytes(32)
  const keys = { sealingKey, authority: undefined }
  const credentials = () => cluster.get('Secret', key(childNames.credentials(owner.id)))
  const mint = () => passOf({ pass: { keys } }).do({ do: 'mint-credentials' })

  test('credentials are minted, and never again', async () => {
    expect(await mint()).toBe('done')
    const minted = await credentials()
    expect(Object.keys(minted?.data ?? {})).toEqual(['admin', 'app', 'app_read_only'])
    expect(await mint()).toBe('done')
    expect((await credentials())?.data).toEqual(minted?.data)
  })

  test('they get back the labels by which caches find them, and keep others', async () => {
    await mint()
    const minted = await credentials()
    if (minted === undefined) throw new Error('there are credentials')
    await cluster.replace('Secret', { ...minted, metadata: { ...minted.metadata, labels: { theirs: 'yes' } } })
    await mint()
    expect(await credentials()).toMatchObject({
      metadata: { labels: { ...minted.metadata.labels, theirs: 'yes' } },
      data: minted.data,
    })
  })

  test('those that are looked for get their labels back as well, and are not minted', async () => {
    const find = () => passOf({ pass: { keys } }).do({ do: 'find-credentials' })
    expect(await find()).toBe('done')
    expect(await credentials()).toBeUndefined()
    await mint()
    const minted = await credentials()
    if (minted === undefined) throw new Error('there are credentials')
    await cluster.replace('Secret', { ...minted, metadata: { ...minted.metadata, labels: {} } })
    expect(await find()).toBe('done')
    expect(await credentials()).toMatchObject({ metadata: { labels: minted.metadata.labels ?? {} }, data: minted.data })
  })

  test('nothing is minted without the key', async () => {
    expect(await passOf().do({ do: 'mint-credentials' })).toBe('done')
    expect(await credentials()).toBeUndefined()
  })

  test('nor by a database whose id is not settled', async () => {
    const unsettled = passOf({ observed: { owner: undefined }, pass: { keys } })
    await expect(unsettled.do({ do: 'mint-credentials' })).rejects.toThrow(
      expect.objectContaining({ reason: 'Conflict' }),
    )
    expect(await credentials()).toBeUndefined()
  })

  const rewrite = (action: Action, observed: Secret | undefined, given: Pass['keys'] = keys) =>
    passOf({ children: { credentials: observed }, pass: { keys: given, access: locking, target: locked } }).do(action)
  const locked = { host: '127.0.0.1' } as NonNullable<Pass['target']>
  const locking = { withRolesLocked: (_: unknown, work: () => Promise<void>) => work() } as unknown as PostgresAccess
  const rotate: Action = { do: 'rotate-passwords', rotations: { app: 'first' } }
  /** The Secret as it stands, and what is in it. */
  async function known() {
    const secret = await credentials()
    if (secret === undefined) throw new Error('there are credentials')
    return { secret, passwords: openCredentials(secret, sealingKey), fields: Object.keys(secret.data ?? {}) }
  }

  test('passwords are replaced, taken back and forgotten, each in the Secret as it was observed', async () => {
    await mint()
    const minted = await known()
    expect(await rewrite(rotate, minted.secret)).toBe('done')
    const rotated = await known()
    expect(rotated.passwords).toEqual({ ...minted.passwords, app: expect.any(String) })
    expect(rotated.passwords.app).not.toBe(minted.passwords.app)
    expect(await rewrite({ do: 'take-back-passwords', roles: ['app'] }, rotated.secret)).toBe('done')
    const back = await known()
    expect([back.passwords, back.fields]).toEqual([minted.passwords, minted.fields])
    await rewrite(rotate, back.secret)
    const again = await known()
    expect(again.fields).not.toEqual(minted.fields)
    expect(await rewrite({ do: 'forget-previous-passwords' }, again.secret)).toBe('done')
    const forgotten = await known()
    expect([forgotten.passwords, forgotten.fields]).toEqual([again.passwords, minted.fields])
    await expect(rewrite(rotate, minted.secret)).rejects.toThrow(expect.objectContaining({ reason: 'Conflict' }))
    expect(await credentials()).toEqual(forgotten.secret)
  })

  test('no password is written without the key, or where no Secret was observed', async () => {
    await mint()
    const { secret } = await known()
    expect(await rewrite(rotate, undefined)).toBe('done')
    expect(await rewrite(rotate, secret, { sealingKey: undefined, authority: undefined })).toBe('done')
    expect(await credentials()).toEqual(secret)
  })

  test('a claim of another under the name is left as it is', async () => {
    const name = childNames.claim(owner.id, 1)
    const theirs = await cluster.create('PersistentVolumeClaim', claimDraft(other, name))
    await expect(passOf().do({ do: 'create-claim', draft: claimDraft(owner) })).rejects.toThrow(NameTakenError)
    expect(await cluster.get('PersistentVolumeClaim', key(name))).toEqual(theirs)
  })

  test('a claim that goes while it is looked at is an error, and so is any other', async () => {
    const fails = (reason: 'AlreadyExists' | 'Forbidden') =>
      passOf({
        executor: { cluster: { ...cluster, create: () => Promise.reject(new ClusterError(reason, 'no')) } as Cluster },
      })
    for (const reason of ['AlreadyExists', 'Forbidden'] as const)
      await expect(fails(reason).do({ do: 'create-claim', draft: claimDraft(owner) })).rejects.toThrow(
        expect.objectContaining({ reason }),
      )
  })

  test('a claim of its own is not written where making one is forbidden', async () => {
    const { labels: _, ...metadata } = claimDraft(owner).metadata
    const there = await cluster.create('PersistentVolumeClaim', { ...claimDraft(owner), metadata })
    const create = () => Promise.reject(new ClusterError('Forbidden', 'no'))
    const forbidden = passOf({ executor: { cluster: { ...cluster, create } as Cluster } })
    await expect(forbidden.do({ do: 'create-claim', draft: claimDraft(owner) })).rejects.toThrow('no')
    expect(await cluster.get('PersistentVolumeClaim', there.metadata)).toEqual(there)
  })

  test('a claim is made', async () => {
    expect(await passOf().do({ do: 'create-claim', draft: claimDraft(owner) })).toBe('done')
    expect(await cluster.get('PersistentVolumeClaim', key(childNames.claim(owner.id, 1)))).toBeDefined()
  })
})

describe('what is written over', () => {
  const name = () => childNames.configuration(owner.id, 1)
  const apply = (data: Record<string, string>): Action => ({
    ...{ do: 'apply', kind: 'ConfigMap', draft: mapDraft(owner, name(), data) },
  })

  test("is the database's own", async () => {
    expect(await passOf().do(apply({ is: 'first' }))).toBe('done')
    expect(await passOf().do(apply({ is: 'second' }))).toBe('done')
    expect((await cluster.get('ConfigMap', key(name())))?.data).toEqual({ is: 'second' })
  })

  test("is never another's, whatever else of its own is known", async () => {
    const theirs = await cluster.create('ConfigMap', mapDraft(other, name(), { is: 'theirs' }))
    const service = { ...theirs, kind: 'Service' } as unknown as Observed['children']['service']
    const route = { ...theirs, metadata: { ...theirs.metadata, name: 'route-1' } }
    for (const children of [{}, { service }, { route }])
      await expect(passOf({ children }).do(apply({ is: 'ours' }))).rejects.toThrow(NameTakenError)
    expect(await cluster.get('ConfigMap', key(name()))).toEqual(theirs)
  })

  test('needs no look where the caches have it as its own', async () => {
    const configuration = await cluster.create('ConfigMap', mapDraft(owner, name()))
    let looks = 0
    const counting = new Proxy(cluster, {
      get: (target, property: keyof Cluster) => {
        if (property === 'get') looks += 1
        return target[property]
      },
    })
    await passOf({ children: { configuration }, executor: { cluster: counting } }).do(apply({ is: 'ours' }))
    const route = await cluster.get('ConfigMap', key(name()))
    await passOf({ children: { route }, executor: { cluster: counting } }).do(apply({ is: 'ours' }))
    expect(looks).toBe(0)
  })

  test('is what was seen: not what others changed since, nor what has its name by now', async () => {
    const seen = await cluster.create('ConfigMap', mapDraft(owner, name()))
    const changed = await cluster.replace('ConfigMap', { ...seen, data: { is: 'changed' } })
    const conflict = expect.objectContaining({ reason: 'Conflict' })
    await expect(passOf({ children: { configuration: seen } }).do(apply({ is: 'ours' }))).rejects.toThrow(conflict)
    await cluster.delete('ConfigMap', key(name()))
    await expect(passOf({ children: { configuration: changed } }).do(apply({ is: 'ours' }))).rejects.toThrow(conflict)
    expect(await cluster.get('ConfigMap', key(name()))).toBeUndefined()
    const theirs = await cluster.create('ConfigMap', mapDraft(other, name(), { is: 'theirs' }))
    await expect(passOf({ children: { configuration: changed } }).do(apply({ is: 'ours' }))).rejects.toThrow(conflict)
    expect(await cluster.get('ConfigMap', key(name()))).toEqual(theirs)
  })

  test('is made anew where others made it immutable', async () => {
    const seen = await cluster.create('ConfigMap', { ...mapDraft(owner, name(), { is: 'old' }), immutable: true })
    expect(await passOf({ children: { configuration: seen } }).do(apply({ is: 'new' }))).toBe('done')
    const anew = await cluster.get('ConfigMap', key(name()))
    expect(anew).toMatchObject({ data: { is: 'new' } })
    expect(anew?.metadata.uid).not.toBe(seen.metadata.uid)
  })

  test('a certificate is issued under the authority of the moment, and not without one', async () => {
    const names = { dnsNames: ['one.db.test'], ipAddresses: [] }
    const get = () => cluster.get('Secret', key(childNames.tls(owner.id)))
    expect(await passOf().do({ do: 'issue-certificate', names })).toBe('done')
    expect(await get()).toBeUndefined()
    const keys = () => ({ sealingKey: undefined, authority: trustIn(createAuthority()) })
    expect(await passOf({ executor: { keys } }).do({ do: 'issue-certificate', names })).toBe('done')
    const certificate = await get()
    expect(certificate && fingerprintOf(certificate)).toMatch(/^([0-9A-F]{2}:){31}[0-9A-F]{2}$/)
  })

  test('that Postgres shows a certificate is noted on that certificate alone', async () => {
    const keys = () => ({ sealingKey: undefined, authority: trustIn(createAuthority()) })
    await passOf({ executor: { keys } }).do({ do: 'issue-certificate', names: { dnsNames: ['a'], ipAddresses: [] } })
    const get = async () => cluster.get('Secret', key(childNames.tls(owner.id)))
    const certificate = await get()
    const fingerprint = (certificate && fingerprintOf(certificate)) ?? ''
    const note = (shown: string, of: typeof certificate) =>
      passOf({ children: { certificate: of } }).do({ do: 'note-loaded', fingerprint: shown })
    expect([await note('another', certificate), await note(fingerprint, undefined)]).toEqual(['done', 'done'])
    expect(await get()).toEqual(certificate)
    expect(await note(fingerprint, certificate)).toBe('done')
    const noted = await get()
    expect(noted?.metadata.annotations).toEqual({
      ...certificate?.metadata.annotations,
      [loadedAnnotation]: fingerprint,
    })
    await expect(note(fingerprint, certificate), 'nor on one that was issued meanwhile').rejects.toThrow(
      expect.objectContaining({ reason: 'Conflict' }),
    )
  })
})

describe('growth', () => {
  const growing = (reason?: 'Invalid' | 'Forbidden' | 'BadRequest' | 'Conflict') => {
    const growthRefusals = createGrowthRefusals(() => 0)
    const replace = () => (reason ? Promise.reject(new ClusterError(reason, 'no more')) : Promise.resolve())
    const pass = passOf({ executor: { growthRefusals, cluster: { replace } as unknown as Cluster } })
    const claim = { ...claimDraft(owner), metadata: { ...claimDraft(owner).metadata, uid: 'claim-uid' } }
    const grow = () => pass.do({ do: 'grow-claim', claim: claim as never })
    return { growthRefusals, grow, name: `${testNamespace}/${database.metadata.name}`, claim }
  }

  test.each(['Invalid', 'Forbidden', 'BadRequest'] as const)('that is %s is remembered', async reason => {
    const { growthRefusals, grow, name } = growing(reason)
    expect(await grow()).toBe('refused')
    expect(growthRefusals.refusalOf(name)).toMatchObject({ claim: 'claim-uid', storage: '1Gi', message: 'no more' })
  })

  test('that meets a change is tried again, and no refusal', async () => {
    const { growthRefusals, grow, name } = growing('Conflict')
    await expect(grow()).rejects.toThrow('no more')
    expect(growthRefusals.refusalOf(name)).toBeUndefined()
  })

  test('that is admitted makes the last refusal forgotten', async () => {
    const { growthRefusals, grow, name, claim } = growing()
    growthRefusals.refused(name, claim as never, 'before')
    expect(await grow()).toBe('done')
    expect(growthRefusals.refusalOf(name)).toBeUndefined()
  })

  test('of a claim that changed meanwhile fails', async () => {
    const claim = await cluster.create('PersistentVolumeClaim', claimDraft(owner))
    await cluster.replace('PersistentVolumeClaim', {
      ...claim,
      metadata: { ...claim.metadata, annotations: { ...claim.metadata.annotations, a: 'b' } },
    })
    for (const action of ['grow-claim', 'update-claim'] as const)
      await expect(passOf().do({ do: action, claim })).rejects.toThrow(expect.objectContaining({ reason: 'Conflict' }))
  })

  test('a claim is updated', async () => {
    const claim = await cluster.create('PersistentVolumeClaim', claimDraft(owner))
    const annotations = { ...claim.metadata.annotations, a: 'b' }
    const changed = { ...claim, metadata: { ...claim.metadata, annotations } }
    expect(await passOf().do({ do: 'update-claim', claim: changed })).toBe('done')
    expect((await cluster.get('PersistentVolumeClaim', claim.metadata))?.metadata.annotations).toEqual(annotations)
  })
})

test('ports are claimed and left for the database', async () => {
  const asked: unknown[] = []
  const ports: Executor['ports'] = {
    claim: async (_, whose, region, preferred) => void asked.push([whose.uid, region?.metadata.name, preferred]),
    leave: async (_, { port, uid }) => void asked.push([port, uid]),
  }
  expect(await passOf({ executor: { ports } }).do({ do: 'claim-port', preferred: 5432 })).toBe('done')
  expect(await passOf({ executor: { ports } }).do({ do: 'leave-port', port: 5433, uid: 'route-uid' })).toBe('done')
  expect(asked).toEqual([
    [owner.uid, 'here', 5432],
    [5433, 'route-uid'],
  ])
})

describe('in Postgres', () => {
  const target = { host: '127.0.0.1' } as NonNullable<Pass['target']>
  const passwords = { admin: 'a', app: 'b', app_read_only: 'c' }
  const readable = {
    state: 'readable' as const,
    mark: 'mark-1',
    mintedAt: '2026-01-01T00:00:00Z',
    rotations: {},
    previous: [],
  }

  function recording(fails = false) {
    const calls: unknown[] = []
    const call = (what: unknown): Promise<never[]> => {
      calls.push(what)
      return fails ? Promise.reject(new Error('no')) : Promise.resolve([])
    }
    const access = {
      reload: (whom: unknown) => call(['reload', whom]),
      detach: (whom: unknown) => call(['detach', whom]),
      open: async (whom: unknown, desired: ReadDesiredRoles) => call(['open', whom, await desired()]),
      ensureRoles: async (whom: unknown, desired: ReadDesiredRoles, _: unknown, { opens }: { opens?: true }) =>
        call([opens ? 'roles and open' : 'roles', whom, await desired()]),
    } as unknown as PostgresAccess
    return { calls, access }
  }

  test('roles get the passwords with their mark, a copy is rid of its source and let in, and a reload is told', async () => {
    const { calls, access } = recording()
    const sealingKey = randomBytes(32)
    const pass = passOf({
      observed: { credentials: readable },
      children: { credentials: await cluster.create('Secret', credentialsDraft(owner, sealingKey, passwords)) },
      executor: { keys: () => ({ sealingKey, authority: undefined }) },
      pass: { access, target, passwords },
    })
    // Replaced since it was observed.
    const secret = await cluster.get('Secret', key(childNames.credentials(owner.id)))
    if (secret === undefined) throw new Error('there are credentials')
    await cluster.replace('Secret', rotated(secret, sealingKey, { app: 'again' }))
    const { uid = '' } = secret.metadata
    const current = { passwords: { ...passwords, app: expect.not.stringMatching(/^b$/) }, mark: `${uid} app=again` }
    for (const what of ['ensure-roles', 'reload', 'detach', 'open'] as const)
      expect(await pass.do({ do: what })).toBe('done')
    await pass.do({ do: 'ensure-roles', opens: true })
    expect(calls).toEqual([
      ['roles', target, current],
      ['reload', target],
      ['detach', target],
      ['open', target, current],
      ['roles and open', target, current],
    ])
    const outdated = [`${testNamespace}/${database.metadata.name}`, false]
    expect(pass.outdated).toEqual([outdated, outdated, outdated, outdated, outdated])
  })

  test('a new look is due after what failed, too', async () => {
    const { access } = recording(true)
    const pass = passOf({ pass: { access, target } })
    await expect(pass.do({ do: 'reload' })).rejects.toThrow('no')
    expect(pass.outdated).toEqual([[`${testNamespace}/${database.metadata.name}`, true]])
  })

  test('nothing is done where it cannot be reached', async () => {
    const { calls, access } = recording()
    for (const pass of [
      { access, passwords },
      { target, passwords },
    ]) {
      const without = passOf({ observed: { credentials: readable }, pass })
      expect([await without.do({ do: 'reload' }), await without.do({ do: 'ensure-roles' })]).toEqual(['done', 'done'])
      expect(without.outdated).toEqual([])
    }
    expect(calls).toEqual([])
  })

  test('roles get no passwords that cannot be read', async () => {
    const { calls, access } = recording()
    const unreadable = { state: 'unreadable' as const, message: 'sealed under another key' }
    await passOf({ observed: { credentials: readable }, pass: { access, target } }).do({ do: 'ensure-roles' })
    const pass = passOf({ observed: { credentials: unreadable }, pass: { access, target, passwords } })
    await pass.do({ do: 'ensure-roles' })
    expect(calls).toEqual([])
  })
})
