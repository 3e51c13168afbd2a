/** Decisions about a volume that is being deleted or was deleted. Each table has the decisions by observed state. */
import { describe, expect, test } from 'vitest'
import type { PersistentVolumeClaim } from '../../../../cluster/index.ts'
import { ownerAnnotations } from '../../../objects/ownership.ts'
import { emptyClusterState, observedIn, round } from '../../../testing/cluster-state.ts'
import type { Observed } from '../../../workload/observed.ts'
import { isStopped, isSuspensionDelayed, mayStop, stopsToRebind } from '../../pod/plan/stop.ts'
import type { PodFacts } from '../../pod/pod.ts'
import { reboundClaimDraft } from '../claim.ts'
import type { VolumeFacts } from '../persistent-volume.ts'
import { nextRecord, recordFromClaim } from './record.ts'
import { protectVolume } from './volume-protection.ts'
import { isRebound, mayRunOnRecordedVolume, outlivesClaim, volumeStateOf } from './volume-state.ts'

const at = '2026-01-01T00:00:00Z'
const clusterState = emptyClusterState()
for (let count = 0; count < 15; count++) round(clusterState)
const reconciled = observedIn(clusterState)
const found = reconciled.children.claim
const { owner: identifiedOwner, pod: reconciledPod } = reconciled
if (found === undefined || identifiedOwner === undefined || reconciledPod === undefined)
  throw new Error('the database does not serve')
const owner = identifiedOwner
const namespace = found.metadata.namespace ?? ''
const name = found.metadata.name

const claimOf = (changes: Partial<PersistentVolumeClaim['metadata']> = {}, phase = 'Bound'): PersistentVolumeClaim => ({
  ...found,
  metadata: { ...found.metadata, uid: 'claim-1', ...changes },
  spec: { ...found.spec, volumeName: 'pv' },
  status: { phase, capacity: { storage: '1Gi' } },
})
const claim = claimOf()
const going = claimOf({ deletionTimestamp: at })
/** A claim that the operator created for the volume, with the old claim's name. */
const recreated = claimOf({ uid: 'claim-2' })
const foreign = claimOf({ uid: 'claim-2', annotations: { ...ownerAnnotations({ ...owner, uid: 'another' }) } })

const volumeOf = (changes: Partial<VolumeFacts> = {}): VolumeFacts => ({
  ...{ name: 'pv', uid: 'pv-uid', isTerminating: false, isRetained: false, policyBefore: undefined, isBound: true },
  ...{ claim: `${namespace}/${name}`, claimUid: 'claim-1', isLabelled: true, accessModes: ['ReadWriteOnce'] },
  ...{ capacity: '1Gi', storageClass: 'fast', isProvisioned: true },
  ...changes,
})
const retained = { isRetained: true, policyBefore: 'Delete' }

const record = { claim: name, uid: 'claim-1', volumeName: 'pv', systemIdentifier: '7' }
const running: PodFacts = { ...reconciledPod, address: '10.0.0.1', terminating: false, volume: 'claim-1', createdAt: 0 }
const down: PodFacts = { ...running, address: undefined, problem: undefined }

type Given = {
  claim?: PersistentVolumeClaim | undefined
  volume?: VolumeFacts | undefined
  bound?: VolumeFacts | undefined
  copy?: VolumeFacts
  pod?: PodFacts | undefined
  record?: typeof record | Omit<typeof record, 'volumeName'> | undefined
  suspended?: boolean
  replicas?: number
  isOrphanClaim?: boolean
  /** Another size than the applied one is requested, and is being applied. */
  isResizing?: boolean
  /** `progressing`: another size or another operation is in progress. `hasSize`: the requested Size exists. */
  progressing?: boolean
  hasSize?: boolean
  suspensionBlock?: Observed['suspensionBlock']
}

/** A serving database, with the given differences. */
function observedOf(given: Given = {}): Observed {
  const has = (field: keyof Given) => Object.hasOwn(given, field)
  const volume = has('volume') ? given.volume : volumeOf()
  const { suspended = false, replicas = suspended ? 0 : 1, isResizing = false } = given
  const { progressing = isResizing, hasSize = true, suspensionBlock } = given
  const { statefulSet } = reconciled.children
  const conditions = progressing
    ? [{ type: 'Progressing', status: 'True' as const, reason: 'Starting', message: '', lastTransitionTime: at }]
    : []
  const size = isResizing ? { name: 'large', version: 1 } : reconciled.instance.spec.size
  return {
    ...reconciled,
    instance: {
      ...reconciled.instance,
      spec: { ...reconciled.instance.spec, suspended, size },
      status: { ...reconciled.instance.status, conditions, volume: has('record') ? given.record : record },
    },
    isOrphanClaim: given.isOrphanClaim ?? false,
    size: hasSize ? reconciled.size : undefined,
    suspensionBlock,
    children: {
      ...reconciled.children,
      claim: has('claim') ? given.claim : claim,
      statefulSet: statefulSet && {
        ...statefulSet,
        spec: { ...statefulSet.spec, replicas } as typeof statefulSet.spec,
      },
    },
    volumes: { recorded: volume, bound: has('bound') ? given.bound : volume, copy: given.copy },
    pod: has('pod') ? given.pod : running,
  }
}

const [retainedVolume, goingVolume] = [volumeOf(retained), volumeOf({ ...retained, isTerminating: true })]
const unclaimed = volumeOf({ ...retained, claimUid: undefined })
const ofAnother = volumeOf({ ...retained, claim: `${namespace}/other` })

describe('the state of a volume', () => {
  test.each<[string, Given, ReturnType<typeof volumeStateOf>]>([
    ['under a running Postgres is safe', {}, 'safe'],
    ['before one is recorded is safe', { record: undefined, claim: undefined }, 'safe'],
    ['whose claim is being deleted is terminating', { claim: going }, 'terminating'],
    ['that is being deleted itself is terminating', { volume: goingVolume }, 'terminating'],
    ['whose claim has lost it', { claim: claimOf({}, 'Lost'), volume: undefined }, 'lost'],
    [
      'whose claim has lost it, and which still exists',
      { claim: claimOf({}, 'Lost'), volume: retainedVolume },
      'released',
    ],
    [
      'whose claim is deleted, and which is retained',
      { claim: undefined, volume: retainedVolume, bound: undefined },
      'released',
    ],
    ['whose claim is deleted, and which is not reserved', { claim: undefined, volume: unclaimed }, 'released'],
    ['that is deleted with its claim', { claim: undefined, volume: undefined }, 'lost'],
    ['that is reserved for another claim', { claim: undefined, volume: ofAnother }, 'lost'],
    ["whose claimRef has another claim's uid", { claim: undefined, volume: volumeOf({ claimUid: 'claim-9' }) }, 'lost'],
    [
      'that is being deleted, and is not retained',
      { claim: undefined, volume: volumeOf({ isTerminating: true }) },
      'lost',
    ],
    ['that is being deleted, and is retained', { claim: undefined, volume: goingVolume }, 'released'],
    [
      'with a new claim of this owner',
      { claim: recreated, volume: volumeOf({ ...retained, claimUid: 'claim-2' }) },
      'released',
    ],
    ['with a new claim of this owner, and which is not reserved', { claim: recreated, volume: unclaimed }, 'released'],
    ['with a new claim of this owner, not bound yet', { claim: recreated, volume: retainedVolume }, 'released'],
    ["whose claim name another owner's claim has", { claim: foreign, volume: retainedVolume }, 'lost'],
    [
      'with a claim of this owner that names another volume',
      { claim: { ...recreated, spec: { ...recreated.spec, volumeName: 'pv-9' } }, volume: retainedVolume },
      'lost',
    ],
    [
      'that is recorded without a name',
      { claim: recreated, volume: retainedVolume, record: { claim: name, uid: 'claim-1', systemIdentifier: '7' } },
      'lost',
    ],
  ])('%s', (_, given, state) => {
    expect(volumeStateOf(observedOf(given))).toBe(state)
  })

  test.each<[string, PersistentVolumeClaim, Given, boolean]>([
    ['of this owner, for the volume', recreated, {}, true],
    ['that is the recorded claim', claim, {}, false],
    ['of another owner', foreign, {}, false],
    ['for another volume', { ...recreated, spec: { volumeName: 'pv-9' } }, {}, false],
    ['for no volume', { ...recreated, spec: {} }, {}, false],
    [
      'for no volume, if the record names no volume',
      { ...recreated, spec: {} },
      { record: { ...record, volumeName: undefined } as never },
      false,
    ],
  ])('whether a claim %s replaces the deleted claim', (_, one, given, is) => {
    expect(isRebound(observedOf(given), one)).toBe(is)
  })
})

describe('whether the data outlive the claim', () => {
  test.each<[string, Given, boolean]>([
    ['yes, if the volume is retained', { volume: retainedVolume }, true],
    ['no, if it is not retained', {}, false],
    ['no, if it is being deleted', { volume: goingVolume }, false],
    ['no, if it does not exist', { volume: undefined }, false],
    ["no, if the claim's volume is not retained", { volume: retainedVolume, bound: volumeOf({ name: 'pv-9' }) }, false],
    [
      "yes, whatever volume another owner's claim has",
      { claim: foreign, volume: retainedVolume, bound: volumeOf({ name: 'pv-9' }) },
      true,
    ],
    ['yes, if no claim names it', { claim: undefined, volume: retainedVolume, bound: undefined }, true],
  ])('%s', (_, given, is) => {
    expect(outlivesClaim(observedOf(given))).toBe(is)
  })
})

describe('whether Postgres may be running on the recorded volume', () => {
  const crashed = { reason: 'CrashLoopBackOff', message: '', refusal: undefined, diskFull: false }
  const made = Date.parse(at)
  const later = claimOf({ uid: 'claim-2', creationTimestamp: at })
  test.each<[string, Given, boolean]>([
    ['a pod that runs', {}, true],
    ['no pod', { pod: undefined }, false],
    ['a pod that terminates', { pod: { ...running, terminating: true } }, false],
    ['a pod that has not started', { pod: down }, false],
    ['a pod that crashed, and restarts', { pod: { ...down, problem: crashed, isStuck: false } }, true],
    ['a pod that crashed, and does not restart', { pod: { ...down, problem: crashed, isStuck: true } }, false],
    ['a pod, while no claim exists', { claim: undefined }, true],
    [
      'a pod created before another claim took the name',
      { claim: later, pod: { ...running, createdAt: made - 1 } },
      true,
    ],
    ['a pod created in the same second as another claim', { claim: later, pod: { ...running, createdAt: made } }, true],
    [
      'a pod created after another claim took the name',
      { claim: later, pod: { ...running, createdAt: made + 1 } },
      false,
    ],
    ['a pod with an unknown creation time', { claim: later, pod: { ...running, createdAt: undefined } }, true],
    [
      'a pod created after its own claim',
      { claim: claimOf({ creationTimestamp: at }), pod: { ...running, createdAt: made + 1 } },
      true,
    ],
  ])('%s', (_, given, is) => {
    expect(mayRunOnRecordedVolume(observedOf(given))).toBe(is)
  })
})

describe('the actions for a volume', () => {
  const change = (to: object) => ({ do: 'change-volume', name: 'pv', uid: 'pv-uid', change: to })
  const [label, retain] = [change({ to: 'label', owner }), change({ to: 'retain', owner })]
  const giveBack = change({ to: 'give-back', claimUid: undefined })
  const unclaim = change({ to: 'unclaim' })
  const copy = { do: 'copy-volume', from: 'pv', uid: 'pv-uid', name: 'espalier-claim-1', owner }
  const deletion = { do: 'delete', kind: 'PersistentVolumeClaim', name, namespace, uid: 'claim-1' }
  const rebind = (volume: VolumeFacts) => ({
    do: 'create-claim',
    draft: reboundClaimDraft({ owner, incarnation: reconciled.incarnation, number: 0 }, '7', volume),
  })
  const still = { pod: undefined, replicas: 0 }

  test.each<[string, Given, object[]]>([
    ['under a running Postgres: nothing', {}, []],
    ["that has no owner's label", { volume: volumeOf({ isLabelled: false }) }, [label]],
    ['that is unknown', { volume: undefined }, []],
    ['without a claim, and not recorded', { claim: undefined, record: undefined }, []],
    ['of a suspended database: it is retained', { suspended: true }, [retain]],
    ['of a suspended database that never had data', { suspended: true, record: undefined }, []],
    ['of a suspended database, already retained', { suspended: true, volume: retainedVolume }, []],
    ['that was retained, under a running Postgres', { volume: retainedVolume }, [giveBack]],
    ['that a user set to Retain', { volume: volumeOf({ isRetained: true }) }, []],
    ['that was retained, before a pod runs', { volume: retainedVolume, pod: down }, []],
    ['that was retained, without a pod', { volume: retainedVolume, pod: undefined }, []],
    ['that was retained, before it is bound', { volume: volumeOf({ ...retained, isBound: false }) }, []],
    [
      'that was retained, before it is bound to this claim',
      { volume: volumeOf({ ...retained, claimUid: undefined }) },
      [],
    ],

    ['whose claim is being deleted: it is retained first', { claim: going }, [retain]],
    ['whose claim is being deleted, even if nothing runs', { claim: going, ...still, suspended: true }, [retain]],
    ['whose claim is being deleted, already retained', { claim: going, volume: retainedVolume }, []],
    ['that is being deleted itself: it is retained first', { volume: volumeOf({ isTerminating: true }) }, [retain]],
    ['that is being deleted itself: a second object is created for its storage', { volume: goingVolume }, [copy]],
    ['that is being deleted, with a second object', { volume: goingVolume, copy: retainedVolume }, []],
    [
      'that is being deleted, with a recorded second object: its claim is deleted when nothing runs',
      { bound: goingVolume, volume: retainedVolume, copy: retainedVolume, ...still, suspended: true },
      [deletion],
    ],
    [
      'that is being deleted, with a recorded second object, while a pod exists: its claim is not deleted',
      { bound: goingVolume, volume: retainedVolume, copy: retainedVolume, suspended: true },
      [],
    ],
    [
      'that is being deleted, with a recorded second object, before a pod starts: its claim is not deleted',
      { bound: goingVolume, volume: retainedVolume, copy: retainedVolume, suspended: true, ...still, replicas: 1 },
      [],
    ],
    [
      'that is being deleted, with a recorded second object, not retained: it is retained first',
      {
        bound: volumeOf({ isTerminating: true }),
        volume: retainedVolume,
        copy: retainedVolume,
        suspended: true,
        ...still,
      },
      [change({ to: 'retain', owner })],
    ],
    [
      'that is being deleted, with a recorded second object, with a terminating claim: its claim is not deleted again',
      { claim: going, bound: goingVolume, volume: retainedVolume, copy: retainedVolume, suspended: true, ...still },
      [],
    ],

    ['without a claim: it is retained first', { claim: undefined, volume: volumeOf(), bound: undefined }, [retain]],
    ['without a claim, under a running Postgres', { claim: undefined, volume: retainedVolume, bound: undefined }, []],
    [
      'without a claim, and nothing runs: the uid in claimRef is removed',
      { claim: undefined, volume: retainedVolume, bound: undefined, ...still },
      [unclaim],
    ],
    [
      'without a claim and without a uid in claimRef: a claim is created',
      { claim: undefined, volume: unclaimed, bound: undefined, ...still },
      [rebind(unclaimed)],
    ],
    [
      'with a new claim for which it is reserved',
      { claim: recreated, volume: volumeOf({ ...retained, claimUid: 'claim-2' }), ...still },
      [],
    ],
    ['with a new claim, and without a uid in claimRef', { claim: recreated, volume: unclaimed, ...still }, []],
    [
      "with a new claim, and with the old claim's uid in claimRef",
      { claim: recreated, volume: retainedVolume, bound: undefined, ...still },
      [unclaim],
    ],
    [
      'of a claim that has lost it: the claim is deleted',
      { claim: claimOf({}, 'Lost'), volume: retainedVolume, ...still },
      [deletion],
    ],
    [
      'of a claim that has lost it, and is being deleted',
      { claim: claimOf({ deletionTimestamp: at }, 'Lost'), volume: retainedVolume, ...still },
      [],
    ],
    [
      'of a claim that has lost it, under a running Postgres',
      { claim: claimOf({}, 'Lost'), volume: retainedVolume },
      [],
    ],

    [
      'that is lost to another claim, and still exists: it is retained',
      { claim: foreign, bound: volumeOf({ name: 'pv-9' }) },
      [retain],
    ],
    ['that is lost to another claim, already retained', { claim: foreign, volume: retainedVolume }, []],
    ['that is lost', { claim: undefined, volume: undefined }, []],
  ])('%s', (_, given, actions) => {
    expect(protectVolume(observedOf(given), owner)).toEqual(actions)
  })
})

describe('whether Postgres is stopped', () => {
  const large = { isResizing: true }
  const lost = { claim: foreign, volume: retainedVolume, bound: volumeOf({ name: 'pv-9' }) }
  const withoutVolume = { claim: foreign, volume: undefined, bound: undefined }
  const pendingClaim = { ...claimOf({ deletionTimestamp: at }, 'Pending'), spec: {} }
  // Three results: may the operator stop it, does the stop bind the volume to a new claim, and must no pod run?
  test.each<[string, Given, [may: boolean, binds: boolean, is: boolean]]>([
    ['without a problem', {}, [true, false, false]],
    ['if it is suspended', { suspended: true }, [true, false, true]],
    ['whose claim is being deleted with the data', { claim: going }, [false, true, false]],
    ['whose claim is being deleted with the data, suspended', { claim: going, suspended: true }, [false, true, false]],
    [
      'whose claim is being deleted with the data, suspended and stopped',
      { claim: going, suspended: true, pod: undefined },
      [false, true, true],
    ],
    [
      'whose claim is being deleted, and whose data are retained',
      { claim: going, volume: retainedVolume },
      [true, true, false],
    ],
    [
      'whose claim is being deleted, with retained data, suspended',
      { claim: going, volume: retainedVolume, suspended: true },
      [true, true, true],
    ],
    [
      'whose claim is being deleted, with retained data, if Postgres has stopped by itself',
      { claim: going, volume: retainedVolume, pod: down },
      [true, true, true],
    ],
    [
      'whose claim is being deleted, with retained data, if its pod is terminating',
      { claim: going, volume: retainedVolume, pod: { ...running, terminating: true } },
      [true, true, true],
    ],
    [
      'whose claim is being deleted, with retained data, without a pod',
      { claim: going, volume: retainedVolume, pod: undefined },
      [true, true, true],
    ],
    [
      'whose claim is being deleted, with retained data, if a stop has begun',
      { claim: going, volume: retainedVolume, replicas: 0 },
      [true, true, true],
    ],
    [
      'whose claim is being deleted, with retained data, if another size is being applied',
      { claim: going, volume: retainedVolume, ...large },
      [true, true, true],
    ],
    [
      'whose claim is being deleted, with retained data, if another size has failed',
      { claim: going, volume: retainedVolume, ...large, progressing: false },
      [true, true, false],
    ],
    [
      'whose claim is being deleted, with retained data, if the requested Size does not exist',
      { claim: going, volume: retainedVolume, ...large, hasSize: false },
      [true, true, false],
    ],
    [
      'whose claim is being deleted, with retained data, if another operation runs',
      { claim: going, volume: retainedVolume, progressing: true },
      [true, true, false],
    ],
    [
      'without a first volume, if its claim is replaced',
      { record: undefined, claim: pendingClaim, pod: undefined },
      [true, false, true],
    ],
    ['if another size is being applied', large, [true, false, false]],
    [
      'if another size is being applied, and the data would be deleted',
      { claim: going, ...large },
      [false, true, false],
    ],
    [
      'whose claim is deleted, and whose data are retained',
      { claim: undefined, volume: retainedVolume, bound: undefined },
      [true, true, true],
    ],
    [
      'whose claim is deleted, and whose data may not be retained',
      { claim: undefined, bound: undefined },
      [false, true, false],
    ],
    ['whose volume is lost to another claim', { ...lost, volume: volumeOf(), bound: undefined }, [false, false, false]],
    ['whose volume is lost to another claim, and retained, under a running Postgres', lost, [true, false, false]],
    [
      'whose volume is lost to another claim, and retained, suspended',
      { ...lost, suspended: true },
      [true, false, true],
    ],
    ['whose volume is deleted, under a running Postgres', withoutVolume, [false, false, false]],
    [
      'whose volume is deleted, under a running Postgres, suspended',
      { ...withoutVolume, suspended: true },
      [false, false, false],
    ],
    ['whose volume is deleted, and nothing runs', { ...withoutVolume, pod: undefined }, [true, false, true]],
  ])('%s', (_, given, expected) => {
    const observed = observedOf(given)
    expect([mayStop(observed), stopsToRebind(observed), isStopped(observed)]).toEqual(expected)
  })

  test.each<[string, Given, boolean]>([
    ['without a problem', {}, true],
    ['if the data would be deleted with its pod', { claim: going }, false],
    ['if no pod protects the data', { claim: going, pod: undefined }, true],
  ])('by a fence, %s', (_, given, is) => {
    const observed = observedOf(given)
    expect(isStopped({ ...observed, instance: { ...observed.instance, isFenced: true } })).toBe(is)
  })
})

describe('a suspension that waits for work in Postgres', () => {
  const waiting = {
    suspended: true,
    replicas: 1,
    suspensionBlock: { reason: 'BackupRunning', message: 'a backup is taken' },
  }
  const lost = { claim: foreign, volume: retainedVolume, bound: volumeOf({ name: 'pv-9' }) }
  test.each<[string, Given, boolean]>([
    ['waits', waiting, true],
    ['waits even if the volume is lost', { ...waiting, ...lost }, true],
    ['does not wait if there is no such work', { ...waiting, suspensionBlock: undefined }, false],
    ['does not wait if the stop has begun', { ...waiting, replicas: 0 }, false],
    ['waits while the pod is replaced', { ...waiting, pod: { ...running, terminating: true } }, true],
    ['waits while Postgres is down', { ...waiting, pod: down }, true],
    ['waits while the pod does not exist', { ...waiting, pod: undefined }, true],
    ['does not wait for a Postgres that is down on a lost volume', { ...waiting, ...lost, pod: down }, false],
    [
      'does not wait for a missing pod on a volume that is being deleted',
      { ...waiting, claim: going, pod: undefined },
      false,
    ],
  ])('%s', (_, given, waits) => {
    const observed = observedOf(given)
    expect([isSuspensionDelayed(observed), isStopped(observed)]).toEqual([waits, !waits])
    expect(isSuspensionDelayed(observedOf({ ...given, suspended: false })), 'without a suspension, nothing waits').toBe(
      false,
    )
  })
})

describe('the recorded volume', () => {
  const withIdentifier = (one: PersistentVolumeClaim, systemIdentifier: string): PersistentVolumeClaim => ({
    ...one,
    metadata: {
      ...one.metadata,
      annotations: { ...one.metadata.annotations, 'espalier.dev/system-identifier': systemIdentifier },
    },
  })
  const silent = (one: PersistentVolumeClaim): PersistentVolumeClaim => {
    const { 'espalier.dev/system-identifier': _, ...annotations } = one.metadata.annotations ?? {}
    return { ...one, metadata: { ...one.metadata, annotations } }
  }
  const completeRecord = { claim: name, uid: 'claim-2', volumeName: 'pv', systemIdentifier: '7' }
  const moved = { claim: undefined, volume: undefined, bound: undefined, pod: undefined }
  const rebound = volumeOf({ ...retained, claimUid: 'claim-2' })
  const proven = { ...running, volume: 'claim-2' }

  test.each<[string, Given, object | undefined]>([
    ['no claim', { ...moved, record: undefined }, undefined],
    ['a claim without the annotation of its data', { claim: silent(recreated), record: undefined }, undefined],
    [
      'the claim of a database that was recreated without its record',
      { claim: withIdentifier(recreated, '7'), record: undefined },
      completeRecord,
    ],
    ['the recorded claim', { claim: withIdentifier(claim, '7') }, undefined],
    [
      'a recreated claim, if the recorded volume is deleted',
      { ...moved, claim: withIdentifier(recreated, '7') },
      completeRecord,
    ],
    [
      'a recreated claim with other data, if the recorded volume is deleted',
      { ...moved, claim: withIdentifier(recreated, '8') },
      undefined,
    ],
    [
      'a recreated claim, if Postgres may run on the recorded volume',
      { ...moved, claim: withIdentifier(recreated, '7'), pod: running },
      undefined,
    ],
    [
      'a claim of another owner, if the recorded volume is deleted',
      { ...moved, claim: withIdentifier(foreign, '7') },
      undefined,
    ],
    [
      'a claim of a deleted owner, if the recorded volume is deleted',
      { ...moved, claim: withIdentifier(foreign, '7'), isOrphanClaim: true },
      completeRecord,
    ],
    [
      'a claim of this owner, bound to the recorded volume',
      { claim: withIdentifier(recreated, '7'), volume: rebound, pod: undefined },
      { ...record, uid: 'claim-2' },
    ],
    [
      'a claim of this owner, before it is bound to the recorded volume',
      { claim: withIdentifier(recreated, '7'), volume: retainedVolume, pod: undefined },
      undefined,
    ],
    [
      'a claim of this owner for another volume',
      { claim: withIdentifier({ ...recreated, spec: { volumeName: 'pv-9' } }, '7'), volume: rebound, pod: undefined },
      undefined,
    ],
    [
      'the claim that the pod runs on, whatever the record contains',
      { claim: withIdentifier(recreated, '8'), pod: proven },
      { ...completeRecord, systemIdentifier: '8' },
    ],
    ["another owner's claim that the pod runs on", { claim: withIdentifier(foreign, '8'), pod: proven }, undefined],
    ['a claim that the pod does not run on', { claim: withIdentifier(recreated, '8'), pod: running }, undefined],
    ['a claim with other data, without a pod', { claim: withIdentifier(recreated, '8'), pod: undefined }, undefined],
    [
      'a claim that a pod will run on',
      { claim: withIdentifier(recreated, '8'), pod: { ...proven, address: undefined } },
      undefined,
    ],
    [
      'a claim that is not bound',
      { claim: withIdentifier(claimOf({ uid: 'claim-2' }, 'Pending'), '8'), pod: proven },
      undefined,
    ],
  ])('is derived from a claim, or not: %s', (_, given, expected) => {
    expect(recordFromClaim(observedOf(given))).toEqual(expected)
  })

  const answered = { state: 'answered', systemIdentifier: '7' } as never
  test.each<[string, Given, boolean, object | undefined]>([
    ['is created when Postgres has answered', { record: undefined }, true, record],
    ['is not created before Postgres has answered', { record: undefined }, false, undefined],
    ['is not created without a claim', { record: undefined, claim: undefined }, true, undefined],
    ['does not change', { claim: recreated, volume: rebound }, true, record],
    [
      'names the second object for the same storage',
      { copy: volumeOf({ name: 'copy' }) },
      true,
      { ...record, volumeName: 'copy' },
    ],
    ['gets the name of its volume', { record: { claim: name, uid: 'claim-1', systemIdentifier: '7' } }, false, record],
    [
      'keeps the name of its volume, whatever its claim contains',
      { claim: { ...claim, spec: { volumeName: 'pv-9' } } },
      true,
      record,
    ],
    [
      'gets no name from another claim',
      { claim: recreated, record: { claim: name, uid: 'claim-1', systemIdentifier: '7' } },
      true,
      { claim: name, uid: 'claim-1', systemIdentifier: '7' },
    ],
  ])('%s', (_, given, hasAnswered, expected) => {
    expect(nextRecord(observedOf(given), hasAnswered ? answered : undefined)).toEqual(expected)
  })
})

describe('a volume', () => {
  const reserved = [
    {
      do: 'change-volume',
      name: 'pv',
      uid: 'pv-uid',
      change: { to: 'reserve', owner, claim: { namespace, name, uid: 'claim-1' } },
    },
  ]
  const removed = volumeOf({ claim: undefined, claimUid: undefined, isBound: false })
  const another = volumeOf({ claim: `${namespace}/other`, claimUid: 'claim-9' })
  test.each<[string, Given]>([
    ['whose claimRef was removed', { volume: removed }],
    ['whose claimRef names another claim', { volume: another }],
    [
      'whose claimRef names a claim of another namespace',
      { volume: volumeOf({ claim: 'other/one', claimUid: undefined }) },
    ],
    ['whose claimRef has another uid', { volume: volumeOf({ claimUid: 'claim-9' }) }],
    ['whose claim the cluster reports as lost', { claim: claimOf({}, 'Lost'), volume: another }],
  ])('%s is reserved for its claim again', (_, given) => {
    expect(protectVolume(observedOf(given), owner)).toEqual(reserved)
  })
  test.each<[string, Given]>([
    ['whose claimRef is unchanged', {}],
    ['whose claimRef lacks only the uid', { volume: volumeOf({ claimUid: undefined }) }],
    ['whose claim is pending', { claim: claimOf({}, 'Pending'), volume: removed }],
    ['of a claim that is not the recorded one', { claim: recreated, volume: removed }],
    ['of a claim that is being deleted', { claim: going, volume: removed }],
    ['that is being deleted', { volume: volumeOf({ claimUid: undefined, isTerminating: true }) }],
  ])('%s is not reserved again', (_, given) => {
    expect(protectVolume(observedOf(given), owner)).not.toMatchObject([{ change: { to: 'reserve' } }])
  })
})
