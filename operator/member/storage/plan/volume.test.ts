/** What is said of a volume, what of it is fatal, and when a claim that never had one gives way to another. */

import { describe, expect, test } from 'vitest'
import type { AnyObject, PersistentVolumeClaim } from '../../../../cluster/index.ts'
import { ownerMarks } from '../../../objects/ownership.ts'
import { emptyWorld, observedIn, round } from '../../../testing/plan-world.ts'
import type { Observed } from '../../../workload/observed.ts'
import { marks } from '../../../workload/plan/marks.ts'
import type { PostgresAnswer } from '../../observed.ts'
import type { PodFacts } from '../../pod/pod.ts'
import { presentAnswer } from '../../postgres/answer.ts'
import { checksumMessage, isFull, isStillReady, writeHangs } from '../../postgres/plan/health.ts'
import type { VolumeFacts } from '../persistent-volume.ts'
import { isToBeReplaced, isUnprovisioned, replacement, unprovisionedMessage } from './unprovisioned.ts'
import { volumeFinding } from './volume.ts'

const at = '2026-01-01T00:00:00Z'
const world = emptyWorld()
for (let count = 0; count < 15; count++) round(world)
const settled = observedIn(world)
const { claim: found, statefulSet } = settled.children
const { pod: settledPod, postgres, owner } = settled
const answer = postgres?.answer
const recorded = settled.instance.status?.volume
if (!found || !settledPod || !postgres || answer?.state !== 'answered' || !recorded || !owner || !statefulSet)
  throw new Error('it serves')
const uid = found.metadata.uid ?? ''
const running: PodFacts = { ...settledPod, volume: uid, run: 'run-1', ready: true, writeHangs: false }
const down: PodFacts = { ...running, address: undefined, ready: false }
const facts = { ...postgres, run: 'run-1', ready: true }

type Given = {
  record?: typeof recorded | undefined
  claim?: PersistentVolumeClaim | undefined
  pod?: PodFacts | undefined
  postgres?: Observed['postgres']
  /** Of the volume on record, and of the claim. */
  volume?: Partial<VolumeFacts>
  suspended?: boolean
  replicas?: number
  isReady?: boolean
  changes?: Partial<Observed>
}

function observedOf(given: Given = {}): Observed {
  const has = (field: keyof Given) => Object.hasOwn(given, field)
  const { suspended = false, isReady = true, replicas = 1, changes = {} } = given
  const status = isReady ? ('True' as const) : ('False' as const)
  const volume = given.volume && {
    ...{ name: 'pv', uid: 'pv-uid', isTerminating: false, isRetained: false, policyBefore: undefined, isBound: true },
    ...{ claim: `${found?.metadata.namespace}/${found?.metadata.name}`, claimUid: uid, isMarked: true },
    ...{ accessModes: [], capacity: '1Gi', storageClass: '', isProvisioned: true },
    ...given.volume,
  }
  return {
    ...settled,
    instance: {
      ...settled.instance,
      spec: { ...settled.instance.spec, suspended },
      status: {
        ...settled.instance.status,
        conditions: [{ type: 'Ready', status, reason: 'Serving', message: '', lastTransitionTime: at }],
        volume: has('record') ? given.record : recorded,
      },
    },
    children: {
      ...settled.children,
      claim: has('claim') ? given.claim : found,
      statefulSet: statefulSet && {
        ...statefulSet,
        spec: { ...statefulSet.spec, replicas } as typeof statefulSet.spec,
      },
    },
    pod: has('pod') ? given.pod : running,
    postgres: has('postgres') ? given.postgres : facts,
    volumes: { recorded: volume, bound: volume, copy: undefined },
    ...changes,
  }
}

const claimOf = (phase: string | undefined, metadata: object = {}, spec: object = {}): PersistentVolumeClaim => {
  const { status: _, ...claim } = found
  return {
    ...claim,
    metadata: { ...claim.metadata, ...metadata },
    spec: { ...claim.spec, ...spec },
    ...(phase === undefined ? {} : { status: { phase } }),
  }
}

describe('a volume', () => {
  const trouble = (more: object) => ({
    ...down,
    trouble: { reason: 'Refused', message: 'as it says', refusal: undefined, diskFull: false, ...more },
  })
  const other = { ...recorded, uid: 'claim-9', systemIdentifier: answer.systemIdentifier }
  const answered = (more: object) => ({ ...answer, ...more }) as typeof answer
  const damaged = { count: 1, databases: ['app'], lastAt: null }

  test.each<[string, Given, typeof answer | undefined, [reason: string, status: string, isFatal?: true]]>([
    ['that serves', {}, answer, ['Bound', 'True']],
    ['that has not answered yet', {}, undefined, ['Bound', 'True']],
    ['that is lost', { record: other }, answer, ['VolumeLost', 'False', true]],
    ['with data of another system', {}, answered({ systemIdentifier: '0' }), ['IdentityMismatch', 'False', true]],
    ['with data of a system, before one is on record', { record: undefined }, answer, ['Bound', 'True']],
    ['whose data are lost', { pod: trouble({ refusal: 'data-lost' }) }, undefined, ['VolumeLost', 'False', true]],
    ['that is empty', { pod: trouble({ refusal: 'volume-empty' }) }, undefined, ['VolumeLost', 'False', true]],
    [
      'of another database',
      { pod: trouble({ refusal: 'other-database' }) },
      undefined,
      ['IdentityMismatch', 'False', true],
    ],
    [
      'of another time',
      { pod: trouble({ refusal: 'other-incarnation' }) },
      undefined,
      ['IdentityMismatch', 'False', true],
    ],
    [
      'of another version',
      { pod: trouble({ refusal: 'wrong-version' }) },
      undefined,
      ['IdentityMismatch', 'False', true],
    ],
    [
      'of nobody knows whom',
      { pod: trouble({ refusal: 'unknown-data' }) },
      undefined,
      ['IdentityMismatch', 'False', true],
    ],
    [
      'that cannot say',
      { pod: trouble({ refusal: 'identity-unreadable' }) },
      undefined,
      ['IdentityMismatch', 'False', true],
    ],
    ['that cannot be written', { pod: trouble({ refusal: 'volume-unwritable' }) }, undefined, ['Bound', 'True']],
    ['that its pod has other trouble on', { pod: trouble({}) }, undefined, ['Bound', 'True']],
    [
      'whose claim goes',
      { claim: claimOf('Bound', { deletionTimestamp: at }) },
      answer,
      ['VolumeBeingDeleted', 'False'],
    ],
    ['that goes itself', { volume: { isTerminating: true } }, answer, ['VolumeBeingDeleted', 'False']],
    [
      'whose claim is gone',
      { claim: undefined, volume: { isRetained: true } },
      undefined,
      ['VolumeBeingDeleted', 'False'],
    ],
    ['that is full, as the pod says', { pod: trouble({ diskFull: true }) }, undefined, ['DiskFull', 'False']],
    ['that is full, as Postgres says', {}, answered({ hasRoom: false }), ['DiskFull', 'False']],
    ['on which a write hangs', { pod: { ...running, writeHangs: true } }, answer, ['WriteHangs', 'False']],
    ['with damaged data', {}, answered({ checksumFailures: damaged }), ['ChecksumFailures', 'False']],
    [
      'without a claim, at first',
      { record: undefined, claim: undefined, pod: undefined },
      undefined,
      ['Pending', 'False'],
    ],
    [
      'that is still being made',
      { record: undefined, claim: claimOf('Pending'), pod: down },
      undefined,
      ['Pending', 'False'],
    ],
    ['that a pod runs on, whatever its claim says', { claim: claimOf('Pending') }, answer, ['Bound', 'True']],
    ['that is there, and no pod', { pod: undefined }, undefined, ['Bound', 'True']],
  ])('%s', (_, given, by, [reason, status, isFatal]) => {
    const { finding, fatal } = volumeFinding(observedOf(given), by)
    expect([finding.reason, finding.status, fatal]).toEqual([reason, status, isFatal])
    expect(finding.message).not.toBe('')
  })

  const messageOf = (given: Given) => volumeFinding(observedOf(given), undefined).finding.message
  const taken = claimOf('Bound', { uid: 'claim-2', creationTimestamp: at })
  test('that is lost is reported with what is left, and how to restore it', () => {
    const runs = /Postgres runs on, and is not stopped/
    expect(messageOf({ claim: undefined })).toMatch(runs)
    expect(messageOf({ claim: undefined, pod: undefined })).not.toMatch(runs)
    expect(messageOf({ claim: undefined })).not.toMatch(/another one has its name/)
    expect(messageOf({ claim: undefined, pod: undefined })).toMatch(/ is gone; put it back/)
    expect(messageOf({ claim: claimOf('Lost') })).not.toMatch(/another one has its name/)
    expect(messageOf({ claim: taken })).toMatch(/another one has its name.*Do not delete the database/)
    expect(messageOf({ claim: taken, volume: { isRetained: true } })).toMatch(/kept on volume pv: suspend/)
    expect(messageOf({ claim: taken, volume: {} })).toMatch(/Do not delete the database/)
    expect(messageOf({ claim: undefined, volume: { claim: 'x/y', isRetained: true } })).toMatch(/Do not delete/)
  })
  test('that waits for its source reports it until the source exists', () => {
    const awaitsSource = { reason: 'AwaitsSnapshot', message: 'the snapshot is being taken' }
    const instance = { ...observedOf({ record: undefined }).instance, awaitsSource }
    const of = (claim: PersistentVolumeClaim | undefined) =>
      volumeFinding(observedOf({ claim, pod: undefined, changes: { instance } }), undefined).finding
    for (const claim of [undefined, claimOf('Pending'), claimOf(undefined)])
      expect(of(claim)).toMatchObject({ status: 'False', ...awaitsSource })
    expect(of(claimOf('Bound'))).toMatchObject({ status: 'True', reason: 'Bound' })
  })
  test('that is not provisioned yet is reported with the message of the cluster', () => {
    const waiting = { record: undefined, claim: claimOf('Pending', {}, { volumeName: undefined }), pod: undefined }
    expect(messageOf(waiting)).toBe('the volume is being made')
    expect(messageOf({ ...waiting, changes: { provisioning: 'too large' } })).toMatch(/too large/)
  })
  test('with damaged data is reported with the time of the last detection', () => {
    const told = (lastAt: string | null) => checksumMessage({ count: 2, databases: ['app', 'postgres'], lastAt })
    expect(told(null)).toMatch(/2 times .* its checksum, in app, postgres\. /)
    expect(told(at)).toMatch(/its checksum, last at 2026-01-01T00:00:00Z, in app/)
  })
  test('that somebody deletes is reported with what happens to the data', () => {
    const going = claimOf('Bound', { deletionTimestamp: at })
    expect(messageOf({ claim: going, volume: {} })).toMatch(/deletes the volume claim .* goes when Postgres stops/)
    expect(messageOf({ claim: going, volume: { isRetained: true } })).toMatch(
      /deletes the volume claim .* nothing is lost/,
    )
    const named = { record: { ...recorded, volumeName: 'pv-7' }, claim: going, volume: { isRetained: true } }
    expect(messageOf(named)).toMatch(new RegExp(`volume claim ${recorded.claim}: .* kept on volume pv-7`))
    expect(messageOf({ volume: { isTerminating: true } })).toMatch(/deletes the volume pv: it goes/)
    expect(messageOf({ claim: undefined, volume: { isRetained: true } })).toMatch(/is being bound to a new claim/)
  })
})

describe('the answer of Postgres', () => {
  test.each<[string, Given, PostgresAnswer | undefined]>([
    ['counts', {}, answer],
    ['counts of no earlier run', { postgres: { ...facts, run: 'run-0' } }, undefined],
    ['counts of no pod without an address', { pod: down }, undefined],
    ['counts of no other volume', { pod: { ...running, volume: 'claim-9' } }, undefined],
    ['is nothing before it was asked', { postgres: undefined }, undefined],
    ['is nothing without a pod', { pod: undefined, postgres: undefined }, undefined],
  ])('%s', (_, given, said) => {
    expect(presentAnswer(observedOf(given))).toEqual(said)
  })

  const slow = { ...facts, answer: undefined }
  test.each<[string, Given, boolean]>([
    ['it was not asked since', { postgres: undefined }, true],
    ['it was too slow', { postgres: slow }, true],
    ['it was too slow in another run', { postgres: { ...slow, run: 'run-0' } }, false],
    ['it answered', {}, false],
    ['nothing was found before', { postgres: undefined, isReady: false }, false],
  ])('is kept if %s', (_, given, is) => {
    expect(isStillReady(observedOf(given))).toBe(is)
  })

  const full = { ...facts, answer: { ...answer, hasRoom: false } }
  const refused = { state: 'refused' as const, reason: 'tls', message: '' }
  const hanging = { ...running, writeHangs: true }
  test.each<[string, Given, [isFull: boolean, hangs: boolean]]>([
    ['nothing', {}, [false, false]],
    ['its disk is full', { postgres: full }, [true, false]],
    ['its disk was full before its pod was ready', { postgres: { ...full, ready: false } }, [false, false]],
    ['it refuses', { postgres: { ...facts, answer: refused } }, [false, false]],
    ['a write hangs, as it says', { postgres: { ...facts, answer: { ...answer, walHangs: true } } }, [false, true]],
    ['a write hangs, as the pod says', { pod: hanging }, [false, true]],
    ['the pod says so, of a full disk', { pod: hanging, postgres: full }, [true, false]],
    ['the pod says so, and nobody has looked since', { pod: { ...hanging, ready: false } }, [false, false]],
    ['the pod says so, and nobody has looked in this run', { pod: { ...hanging, run: 'run-2' } }, [false, false]],
    ['there is no pod', { pod: undefined, postgres: undefined }, [false, false]],
  ])('about its disk: %s', (_, given, expected) => {
    const observed = observedOf(given)
    expect([isFull(observed), writeHangs(observed)]).toEqual(expected)
  })
})

describe('a claim without a volume', () => {
  const waiting = { record: undefined, claim: claimOf('Pending', {}, { volumeName: undefined }), pod: down }
  const going = claimOf('Pending', { deletionTimestamp: at }, { volumeName: undefined })
  const large = claimOf('Pending', { annotations: {} }, { resources: { requests: { storage: '9Gi' } } })

  test.each<[string, Given, [isUnprovisioned: boolean, isToBeReplaced: boolean]]>([
    ['waits', waiting, [true, false]],
    ['waits before it has a status', { ...waiting, claim: claimOf(undefined) }, [true, false]],
    ['waits also before its pod', { ...waiting, pod: undefined }, [true, false]],
    ['waits not where a volume is on record', { ...waiting, record: recorded }, [false, false]],
    ['waits not while it is suspended', { ...waiting, suspended: true }, [false, false]],
    ['waits not where there is none', { ...waiting, claim: undefined }, [false, false]],
    ["waits not where it is another's", { ...waiting, claim: large, changes: { isOrphanClaim: true } }, [false, false]],
    ['waits not under a pod that runs', { ...waiting, claim: large, pod: running }, [false, false]],
    ['waits not once it is bound', { ...waiting, claim: { ...large, status: { phase: 'Bound' } } }, [false, false]],
    [
      'waits not once it has a volume',
      { ...waiting, claim: claimOf('Pending', {}, { volumeName: 'pv' }) },
      [false, false],
    ],
    ['gives way where it goes', { ...waiting, claim: going }, [true, true]],
    ['gives way where it asks for something else', { ...waiting, claim: large }, [true, true]],
    [
      'gives way for no size that there is not',
      { ...waiting, claim: large, changes: { size: undefined } },
      [true, false],
    ],
    [
      'gives way in no region that there is not',
      { ...waiting, claim: large, changes: { region: undefined } },
      [true, false],
    ],
  ])('%s', (_, given, expected) => {
    const observed = observedOf(given)
    expect([isUnprovisioned(observed), isToBeReplaced(observed)]).toEqual(expected)
  })

  const letGo = { do: 'delete', kind: 'PersistentVolumeClaim', name: found.metadata.name, uid }
  test.each<[string, Given, object[]]>([
    ['once there is no pod', { pod: undefined, replicas: 0 }, [letGo]],
    ['not under a pod', { pod: down, replicas: 0 }, []],
    ['not before one that is to come', { pod: undefined, replicas: 1 }, []],
    ['not twice', { pod: undefined, replicas: 0, claim: going }, []],
    ['not where there is none', { pod: undefined, replicas: 0, claim: undefined }, []],
  ])('is deleted %s', (_, given, actions) => {
    expect(replacement(observedOf(given))).toMatchObject(actions)
    expect(replacement(observedOf(given))).toHaveLength(actions.length)
  })

  test('is deleted only with the observed resource version, which a binding changes', () => {
    const claim = claimOf('Pending', { resourceVersion: '42' })
    const [action] = replacement(observedOf({ pod: undefined, replicas: 0, claim }))
    expect(action).toMatchObject({ uid, resourceVersion: '42' })
    const without = { ...observedOf({ pod: undefined, claim }).children, statefulSet: undefined }
    expect(replacement(observedOf({ pod: undefined, claim, changes: { children: without } }))).toHaveLength(1)
  })

  test('is reported with the message of the cluster', () => {
    const trouble = { reason: 'Unschedulable', message: 'no storage', refusal: undefined, diskFull: false }
    expect(unprovisionedMessage(observedOf(waiting))).toBeUndefined()
    expect(unprovisionedMessage(observedOf({}))).toBeUndefined()
    expect(
      unprovisionedMessage(observedOf({ changes: { provisioning: 'too large' } })),
      'of one that has a volume',
    ).toBeUndefined()
    expect(unprovisionedMessage(observedOf({ ...waiting, claim: large }))).toMatch(/is being replaced/)
    expect(unprovisionedMessage(observedOf({ ...waiting, changes: { provisioning: 'too large' } }))).toMatch(
      /yet: too large; /,
    )
    expect(unprovisionedMessage(observedOf({ ...waiting, pod: { ...down, trouble } }))).toMatch(/yet: no storage; /)
  })
})

describe('owner marks', () => {
  const foreign = ownerMarks({ ...owner, uid: 'one-that-was' })
  const bare = (claim: PersistentVolumeClaim, annotations: Record<string, string> = foreign) => ({
    ...claim,
    metadata: { ...claim.metadata, annotations },
  })
  const reference = {
    apiVersion: 'espalier.dev/v1alpha1',
    kind: 'ManagedDatabase',
    name: 'one',
    uid: owner.uid,
    controller: true,
  }
  const marksOf = (claim: PersistentVolumeClaim, given: Given = {}, isGoing = false) => {
    const observed = observedOf({ ...given, claim })
    const owned = { ...observed.owned, claims: [claim] as typeof observed.owned.claims }
    const { referring, ofChildren, others } = marks({ ...observed, owned }, { isGoing })
    return [referring, ofChildren, others].map(
      list => list.filter(one => one.do === 'mark' && one.kind === claim.kind).length,
    )
  }
  const stray = { record: undefined }

  test.each<[string, number[], number[]]>([
    ['are on what is its own', marksOf(found), [0, 0, 0]],
    ['are put on the claim on record', marksOf(bare(found)), [0, 1, 0]],
    ['are put on no strange claim', marksOf(bare(found), stray), [0, 0, 0]],
    ['are put on a strange claim that goes with the database', marksOf(bare(found), stray, true), [0, 1, 0]],
    [
      'come first where a garbage collector could take it',
      marksOf({ ...found, metadata: { ...found.metadata, ownerReferences: [reference] } }, stray),
      [1, 0, 0],
    ],
    [
      'are put on what is none of its children beside the rest',
      marksOf(
        bare({ ...found, metadata: { ...found.metadata, uid: 'claim-9' } }),
        { changes: { children: settled.children } },
        true,
      ),
      [0, 0, 1],
    ],
  ])('%s', (_, counted, expected) => {
    expect(counted).toEqual(expected)
  })

  test('are set on a Secret of any previous owner', () => {
    const secret = settled.owned.secrets[0] as AnyObject
    const changed = { ...secret, metadata: { ...secret.metadata, annotations: foreign } } as AnyObject
    const owned = { ...settled.owned, secrets: [changed] as typeof settled.owned.secrets }
    const { ofChildren } = marks({ ...observedOf({ record: undefined }), owned }, { isGoing: false })
    expect(ofChildren).toEqual([
      {
        do: 'mark',
        kind: 'Secret',
        object: { ...changed, metadata: { ...changed.metadata, annotations: ownerMarks(owner) } },
      },
    ])
  })
})
