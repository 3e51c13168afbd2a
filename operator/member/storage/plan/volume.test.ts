/**
 * What is reported about a volume, which state is fatal, and when the operator replaces a claim that never had a
 * volume.
 */

import { describe, expect, test } from 'vitest'
import type { AnyObject, PersistentVolumeClaim } from '../../../../cluster/index.ts'
import { ownerAnnotations } from '../../../objects/ownership.ts'
import { emptyClusterState, observedIn, round } from '../../../testing/cluster-state.ts'
import type { Observed } from '../../../workload/observed.ts'
import { ownershipActions } from '../../../workload/plan/ownership-actions.ts'
import type { PostgresAnswer } from '../../observed.ts'
import type { PodFacts } from '../../pod/pod.ts'
import { presentAnswer } from '../../postgres/answer.ts'
import { checksumMessage, isFull, isStillReady, writeHangs } from '../../postgres/plan/health.ts'
import type { VolumeFacts } from '../persistent-volume.ts'
import { isToBeReplaced, isUnprovisioned, replacement, unprovisionedMessage } from './unprovisioned.ts'
import { volumeFinding } from './volume.ts'

const at = '2026-01-01T00:00:00Z'
const clusterState = emptyClusterState()
for (let count = 0; count < 15; count++) round(clusterState)
const reconciled = observedIn(clusterState)
const { claim: found, statefulSet } = reconciled.children
const { pod: reconciledPod, postgres, owner } = reconciled
const answer = postgres?.answer
const recorded = reconciled.instance.status?.volume
if (!found || !reconciledPod || !postgres || answer?.state !== 'answered' || !recorded || !owner || !statefulSet)
  throw new Error('the database does not serve')
const uid = found.metadata.uid ?? ''
const running: PodFacts = { ...reconciledPod, volume: uid, run: 'run-1', ready: true, writeHangs: false }
const down: PodFacts = { ...running, address: undefined, ready: false }
const facts = { ...postgres, run: 'run-1', ready: true }

type Given = {
  record?: typeof recorded | undefined
  claim?: PersistentVolumeClaim | undefined
  pod?: PodFacts | undefined
  postgres?: Observed['postgres']
  /** The recorded volume and the claim's volume. */
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
    ...{ claim: `${found?.metadata.namespace}/${found?.metadata.name}`, claimUid: uid, isLabelled: true },
    ...{ accessModes: [], capacity: '1Gi', storageClass: '', isProvisioned: true },
    ...given.volume,
  }
  return {
    ...reconciled,
    instance: {
      ...reconciled.instance,
      spec: { ...reconciled.instance.spec, suspended },
      status: {
        ...reconciled.instance.status,
        conditions: [{ type: 'Ready', status, reason: 'Serving', message: '', lastTransitionTime: at }],
        volume: has('record') ? given.record : recorded,
      },
    },
    children: {
      ...reconciled.children,
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
  const problem = (more: object) => ({
    ...down,
    problem: { reason: 'Refused', message: 'as the source says', refusal: undefined, diskFull: false, ...more },
  })
  const other = { ...recorded, uid: 'claim-9', systemIdentifier: answer.systemIdentifier }
  const answered = (more: object) => ({ ...answer, ...more }) as typeof answer
  const damaged = { count: 1, databases: ['app'], lastAt: null }

  test.each<[string, Given, typeof answer | undefined, [reason: string, status: string, isFatal?: true]]>([
    ['that serves', {}, answer, ['Bound', 'True']],
    ['whose Postgres has not answered yet', {}, undefined, ['Bound', 'True']],
    ['that is lost', { record: other }, answer, ['VolumeLost', 'False', true]],
    ['with data of another system', {}, answered({ systemIdentifier: '0' }), ['IdentityMismatch', 'False', true]],
    ['with data of any system, before a volume is recorded', { record: undefined }, answer, ['Bound', 'True']],
    ['whose data are lost', { pod: problem({ refusal: 'data-lost' }) }, undefined, ['VolumeLost', 'False', true]],
    ['that is empty', { pod: problem({ refusal: 'volume-empty' }) }, undefined, ['VolumeLost', 'False', true]],
    [
      'of another database',
      { pod: problem({ refusal: 'other-database' }) },
      undefined,
      ['IdentityMismatch', 'False', true],
    ],
    [
      'of another incarnation',
      { pod: problem({ refusal: 'other-incarnation' }) },
      undefined,
      ['IdentityMismatch', 'False', true],
    ],
    [
      'of another version',
      { pod: problem({ refusal: 'wrong-version' }) },
      undefined,
      ['IdentityMismatch', 'False', true],
    ],
    [
      'of an unknown owner',
      { pod: problem({ refusal: 'unknown-data' }) },
      undefined,
      ['IdentityMismatch', 'False', true],
    ],
    [
      'with an unreadable identity',
      { pod: problem({ refusal: 'identity-unreadable' }) },
      undefined,
      ['IdentityMismatch', 'False', true],
    ],
    ['that cannot be written', { pod: problem({ refusal: 'volume-unwritable' }) }, undefined, ['Bound', 'True']],
    ['on which its pod has another problem', { pod: problem({}) }, undefined, ['Bound', 'True']],
    [
      'whose claim is being deleted',
      { claim: claimOf('Bound', { deletionTimestamp: at }) },
      answer,
      ['VolumeBeingDeleted', 'False'],
    ],
    ['that is being deleted itself', { volume: { isTerminating: true } }, answer, ['VolumeBeingDeleted', 'False']],
    [
      'whose claim is deleted',
      { claim: undefined, volume: { isRetained: true } },
      undefined,
      ['VolumeBeingDeleted', 'False'],
    ],
    ['that is full, as the pod reports', { pod: problem({ diskFull: true }) }, undefined, ['DiskFull', 'False']],
    ['that is full, as Postgres reports', {}, answered({ hasFreeSpace: false }), ['DiskFull', 'False']],
    ['on which a write hangs', { pod: { ...running, writeHangs: true } }, answer, ['WriteHangs', 'False']],
    ['with a damaged page', {}, answered({ checksumFailures: damaged }), ['ChecksumFailures', 'False']],
    [
      'whose claim does not exist yet',
      { record: undefined, claim: undefined, pod: undefined },
      undefined,
      ['Pending', 'False'],
    ],
    [
      'that does not exist yet',
      { record: undefined, claim: claimOf('Pending'), pod: down },
      undefined,
      ['Pending', 'False'],
    ],
    ["with a running pod, whatever its claim's phase", { claim: claimOf('Pending') }, answer, ['Bound', 'True']],
    ['that is bound, without a pod', { pod: undefined }, undefined, ['Bound', 'True']],
  ])('%s', (_, given, by, [reason, status, isFatal]) => {
    const { finding, fatal } = volumeFinding(observedOf(given), by)
    expect([finding.reason, finding.status, fatal]).toEqual([reason, status, isFatal])
    expect(finding.message).not.toBe('')
  })

  const messageOf = (given: Given) => volumeFinding(observedOf(given), undefined).finding.message
  const taken = claimOf('Bound', { uid: 'claim-2', creationTimestamp: at })
  test('that is lost is reported with the remaining data and how to recover them', () => {
    const runs = /Postgres still runs, and the operator does not stop it/
    expect(messageOf({ claim: undefined })).toMatch(runs)
    expect(messageOf({ claim: undefined, pod: undefined })).not.toMatch(runs)
    expect(messageOf({ claim: undefined })).not.toMatch(/another claim has its name/)
    expect(messageOf({ claim: undefined, pod: undefined })).toMatch(/ was deleted; restore the claim/)
    expect(messageOf({ claim: claimOf('Lost') })).not.toMatch(/another claim has its name/)
    expect(messageOf({ claim: taken })).toMatch(/another claim has its name.*Do not delete the database/)
    expect(messageOf({ claim: taken, volume: { isRetained: true } })).toMatch(/retained on volume pv: suspend/)
    expect(messageOf({ claim: taken, volume: {} })).toMatch(/Do not delete the database/)
    expect(messageOf({ claim: undefined, volume: { claim: 'x/y', isRetained: true } })).toMatch(/Do not delete/)
  })
  test('that waits for its source is reported as waiting until the source exists', () => {
    const awaitsSource = { reason: 'AwaitsSnapshot', message: 'the snapshot is being created' }
    const instance = { ...observedOf({ record: undefined }).instance, awaitsSource }
    const of = (claim: PersistentVolumeClaim | undefined) =>
      volumeFinding(observedOf({ claim, pod: undefined, changes: { instance } }), undefined).finding
    for (const claim of [undefined, claimOf('Pending'), claimOf(undefined)])
      expect(of(claim)).toMatchObject({ status: 'False', ...awaitsSource })
    expect(of(claimOf('Bound'))).toMatchObject({ status: 'True', reason: 'Bound' })
  })
  test("that is not provisioned yet is reported with the cluster's message", () => {
    const waiting = { record: undefined, claim: claimOf('Pending', {}, { volumeName: undefined }), pod: undefined }
    expect(messageOf(waiting)).toBe('the volume is being created')
    expect(messageOf({ ...waiting, changes: { provisioning: 'too large' } })).toMatch(/too large/)
  })
  test('with damaged data is reported with the time of the last checksum failure', () => {
    const reported = (lastAt: string | null) => checksumMessage({ count: 2, databases: ['app', 'postgres'], lastAt })
    expect(reported(null)).toMatch(/wrong checksum 2 times, in app, postgres\. /)
    expect(reported(at)).toMatch(/2 times, last at 2026-01-01T00:00:00Z, in app/)
  })
  test('that is being deleted is reported with what happens to the data', () => {
    const going = claimOf('Bound', { deletionTimestamp: at })
    expect(messageOf({ claim: going, volume: {} })).toMatch(
      /the volume claim .* is being deleted: the deletion completes when Postgres stops/,
    )
    expect(messageOf({ claim: going, volume: { isRetained: true } })).toMatch(
      /the volume claim .* is being deleted.* no data are lost/,
    )
    const named = { record: { ...recorded, volumeName: 'pv-7' }, claim: going, volume: { isRetained: true } }
    expect(messageOf(named)).toMatch(
      new RegExp(`volume claim ${recorded.claim} is being deleted: .* retained on volume pv-7`),
    )
    expect(messageOf({ volume: { isTerminating: true } })).toMatch(
      /the volume pv is being deleted: the deletion completes/,
    )
    expect(messageOf({ claim: undefined, volume: { isRetained: true } })).toMatch(/is being bound to a new claim/)
  })
})

describe('the answer of Postgres', () => {
  test.each<[string, Given, PostgresAnswer | undefined]>([
    ['counts if it is from the current run', {}, answer],
    ['of an earlier run does not count', { postgres: { ...facts, run: 'run-0' } }, undefined],
    ['of a pod without an address does not count', { pod: down }, undefined],
    ['of another volume does not count', { pod: { ...running, volume: 'claim-9' } }, undefined],
    ['does not exist before the first probe', { postgres: undefined }, undefined],
    ['does not exist without a pod', { pod: undefined, postgres: undefined }, undefined],
  ])('%s', (_, given, expected) => {
    expect(presentAnswer(observedOf(given))).toEqual(expected)
  })

  const slow = { ...facts, answer: undefined }
  test.each<[string, Given, boolean]>([
    ['Postgres has not been probed', { postgres: undefined }, true],
    ['the probe timed out', { postgres: slow }, true],
    ['only a probe in another run timed out', { postgres: { ...slow, run: 'run-0' } }, false],
    ['Postgres answered', {}, false],
    ['Ready was not True before', { postgres: undefined, isReady: false }, false],
  ])('decides whether Ready stays True: %s', (_, given, is) => {
    expect(isStillReady(observedOf(given))).toBe(is)
  })

  const full = { ...facts, answer: { ...answer, hasFreeSpace: false } }
  const refused = { state: 'refused' as const, reason: 'tls', message: '' }
  const hanging = { ...running, writeHangs: true }
  test.each<[string, Given, [isFull: boolean, hangs: boolean]]>([
    ['no problem', {}, [false, false]],
    ['its disk is full', { postgres: full }, [true, false]],
    ["its disk was full before the pod's readiness changed", { postgres: { ...full, ready: false } }, [false, false]],
    ['Postgres refuses the operator', { postgres: { ...facts, answer: refused } }, [false, false]],
    [
      'a write hangs, as Postgres reports',
      { postgres: { ...facts, answer: { ...answer, walHangs: true } } },
      [false, true],
    ],
    ['a write hangs, as the pod reports', { pod: hanging }, [false, true]],
    ['the pod reports a hang, on a full disk', { pod: hanging, postgres: full }, [true, false]],
    ['the pod reports a hang, without a probe since', { pod: { ...hanging, ready: false } }, [false, false]],
    ['the pod reports a hang, without a probe in this run', { pod: { ...hanging, run: 'run-2' } }, [false, false]],
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
    ['waits if it has no status', { ...waiting, claim: claimOf(undefined) }, [true, false]],
    ['waits even before its pod exists', { ...waiting, pod: undefined }, [true, false]],
    ['does not wait if a volume is recorded', { ...waiting, record: recorded }, [false, false]],
    ['does not wait while it is suspended', { ...waiting, suspended: true }, [false, false]],
    ['does not wait if there is no claim', { ...waiting, claim: undefined }, [false, false]],
    [
      'does not wait if it belongs to another owner',
      { ...waiting, claim: large, changes: { isOrphanClaim: true } },
      [false, false],
    ],
    ['does not wait under a running pod', { ...waiting, claim: large, pod: running }, [false, false]],
    ['does not wait once it is bound', { ...waiting, claim: { ...large, status: { phase: 'Bound' } } }, [false, false]],
    [
      'does not wait once it has a volume',
      { ...waiting, claim: claimOf('Pending', {}, { volumeName: 'pv' }) },
      [false, false],
    ],
    ['is replaced if it is being deleted', { ...waiting, claim: going }, [true, true]],
    ['is replaced if it has another request', { ...waiting, claim: large }, [true, true]],
    [
      'is not replaced if the Size does not exist',
      { ...waiting, claim: large, changes: { size: undefined } },
      [true, false],
    ],
    [
      'is not replaced if the Region does not exist',
      { ...waiting, claim: large, changes: { region: undefined } },
      [true, false],
    ],
  ])('%s', (_, given, expected) => {
    const observed = observedOf(given)
    expect([isUnprovisioned(observed), isToBeReplaced(observed)]).toEqual(expected)
  })

  const deletion = { do: 'delete', kind: 'PersistentVolumeClaim', name: found.metadata.name, uid }
  test.each<[string, Given, object[]]>([
    ['is deleted when there is no pod', { pod: undefined, replicas: 0 }, [deletion]],
    ['is not deleted while a pod exists', { pod: down, replicas: 0 }, []],
    ['is not deleted if a pod is about to be created', { pod: undefined, replicas: 1 }, []],
    ['is not deleted twice', { pod: undefined, replicas: 0, claim: going }, []],
    ['is not deleted if it does not exist', { pod: undefined, replicas: 0, claim: undefined }, []],
  ])('%s', (_, given, actions) => {
    expect(replacement(observedOf(given))).toMatchObject(actions)
    expect(replacement(observedOf(given))).toHaveLength(actions.length)
  })

  test('is deleted only with the observed resource version, which changes when the claim is bound', () => {
    const claim = claimOf('Pending', { resourceVersion: '42' })
    const [action] = replacement(observedOf({ pod: undefined, replicas: 0, claim }))
    expect(action).toMatchObject({ uid, resourceVersion: '42' })
    const without = { ...observedOf({ pod: undefined, claim }).children, statefulSet: undefined }
    expect(replacement(observedOf({ pod: undefined, claim, changes: { children: without } }))).toHaveLength(1)
  })

  test("is reported with the cluster's message", () => {
    const problem = { reason: 'Unschedulable', message: 'no storage', refusal: undefined, diskFull: false }
    expect(unprovisionedMessage(observedOf(waiting))).toBeUndefined()
    expect(unprovisionedMessage(observedOf({}))).toBeUndefined()
    expect(
      unprovisionedMessage(observedOf({ changes: { provisioning: 'too large' } })),
      'of a claim that has a volume',
    ).toBeUndefined()
    expect(unprovisionedMessage(observedOf({ ...waiting, claim: large }))).toMatch(/is being replaced/)
    expect(unprovisionedMessage(observedOf({ ...waiting, changes: { provisioning: 'too large' } }))).toMatch(
      /yet: too large; /,
    )
    expect(unprovisionedMessage(observedOf({ ...waiting, pod: { ...down, problem } }))).toMatch(/yet: no storage; /)
  })
})

describe('owner labels', () => {
  const foreign = ownerAnnotations({ ...owner, uid: 'one-that-was' })
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
  const annotationCounts = (claim: PersistentVolumeClaim, given: Given = {}, isGoing = false) => {
    const observed = observedOf({ ...given, claim })
    const owned = { ...observed.owned, claims: [claim] as typeof observed.owned.claims }
    const { referring, ofChildren, others } = ownershipActions({ ...observed, owned }, { isGoing })
    return [referring, ofChildren, others].map(
      list => list.filter(one => one.do === 'label' && one.kind === claim.kind).length,
    )
  }
  const stray = { record: undefined }

  test.each<[string, number[], number[]]>([
    ['are not set again on a claim that has them', annotationCounts(found), [0, 0, 0]],
    ['are set on the recorded claim', annotationCounts(bare(found)), [0, 1, 0]],
    ["are not set on another owner's claim", annotationCounts(bare(found), stray), [0, 0, 0]],
    [
      'are set on an unrecorded claim that the operator deletes with the database',
      annotationCounts(bare(found), stray, true),
      [0, 1, 0],
    ],
    [
      'are set first if a garbage collector could delete the claim',
      annotationCounts({ ...found, metadata: { ...found.metadata, ownerReferences: [reference] } }, stray),
      [1, 0, 0],
    ],
    [
      'are set on a claim that is not a child, in parallel with other work',
      annotationCounts(
        bare({ ...found, metadata: { ...found.metadata, uid: 'claim-9' } }),
        { changes: { children: reconciled.children } },
        true,
      ),
      [0, 0, 1],
    ],
  ])('%s', (_, counted, expected) => {
    expect(counted).toEqual(expected)
  })

  test('are set on a Secret of a previous owner', () => {
    const secret = reconciled.owned.secrets[0] as AnyObject
    const changed = { ...secret, metadata: { ...secret.metadata, annotations: foreign } } as AnyObject
    const owned = { ...reconciled.owned, secrets: [changed] as typeof reconciled.owned.secrets }
    const { ofChildren } = ownershipActions({ ...observedOf({ record: undefined }), owned }, { isGoing: false })
    expect(ofChildren).toEqual([
      {
        do: 'label',
        kind: 'Secret',
        object: { ...changed, metadata: { ...changed.metadata, annotations: ownerAnnotations(owner) } },
      },
    ])
  })
})
