/** What is decided for a volume that somebody deletes, or has deleted: table by table, from what is there. */
import { describe, expect, test } from 'vitest'
import type { PersistentVolumeClaim } from '../../../../cluster/index.ts'
import { ownerMarks } from '../../../objects/ownership.ts'
import { emptyWorld, observedIn, round } from '../../../testing/plan-world.ts'
import type { Observed } from '../../../workload/observed.ts'
import { isHeld, isStopped, mayStop, stopsToRebind } from '../../pod/plan/stop.ts'
import type { PodFacts } from '../../pod/pod.ts'
import { reboundClaimDraft } from '../claim.ts'
import type { VolumeFacts } from '../persistent-volume.ts'
import { nextRecord, recordFromClaim } from './record.ts'
import { protectVolume } from './volume-protection.ts'
import { isRebound, mayRunOnRecordedVolume, outlivesClaim, volumeStateOf } from './volume-state.ts'

const at = '2026-01-01T00:00:00Z'
const world = emptyWorld()
for (let count = 0; count < 15; count++) round(world)
const settled = observedIn(world)
const found = settled.children.claim
const { owner: settledOwner, pod: settledPod } = settled
if (found === undefined || settledOwner === undefined || settledPod === undefined) throw new Error('it serves')
const owner = settledOwner
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
/** By its name, and made for the volume by us. */
const anew = claimOf({ uid: 'claim-2' })
const theirs = claimOf({ uid: 'claim-2', annotations: { ...ownerMarks({ ...owner, uid: 'another' }) } })

const volumeOf = (changes: Partial<VolumeFacts> = {}): VolumeFacts => ({
  ...{ name: 'pv', uid: 'pv-uid', isTerminating: false, isRetained: false, policyBefore: undefined, isBound: true },
  ...{ claim: `${namespace}/${name}`, claimUid: 'claim-1', isMarked: true, accessModes: ['ReadWriteOnce'] },
  ...{ capacity: '1Gi', storageClass: 'fast', isProvisioned: true },
  ...changes,
})
const retained = { isRetained: true, policyBefore: 'Delete' }

const record = { claim: name, uid: 'claim-1', volumeName: 'pv', systemIdentifier: '7' }
const running: PodFacts = { ...settledPod, address: '10.0.0.1', terminating: false, volume: 'claim-1', createdAt: 0 }
const down: PodFacts = { ...running, address: undefined, trouble: undefined }

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
  /** Another size than is in force is asked for, and on its way. */
  isResizing?: boolean
  /** Another size is on its way, or another operation; and whether the size that is asked for is there. */
  progressing?: boolean
  hasSize?: boolean
  suspensionBlock?: Observed['suspensionBlock']
}

/** A database that serves, as it is but for what is given. */
function observedOf(given: Given = {}): Observed {
  const has = (field: keyof Given) => Object.hasOwn(given, field)
  const volume = has('volume') ? given.volume : volumeOf()
  const { suspended = false, replicas = suspended ? 0 : 1, isResizing = false } = given
  const { progressing = isResizing, hasSize = true, suspensionBlock } = given
  const { statefulSet } = settled.children
  const conditions = progressing
    ? [{ type: 'Progressing', status: 'True' as const, reason: 'Starting', message: '', lastTransitionTime: at }]
    : []
  const size = isResizing ? { name: 'large', version: 1 } : settled.instance.spec.size
  return {
    ...settled,
    instance: {
      ...settled.instance,
      spec: { ...settled.instance.spec, suspended, size },
      status: { ...settled.instance.status, conditions, volume: has('record') ? given.record : record },
    },
    isOrphanClaim: given.isOrphanClaim ?? false,
    size: hasSize ? settled.size : undefined,
    suspensionBlock,
    children: {
      ...settled.children,
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

const [kept, goingVolume] = [volumeOf(retained), volumeOf({ ...retained, isTerminating: true })]
const unclaimed = volumeOf({ ...retained, claimUid: undefined })
const ofAnother = volumeOf({ ...retained, claim: `${namespace}/other` })

describe('the state of a volume', () => {
  test.each<[string, Given, ReturnType<typeof volumeStateOf>]>([
    ['that serves is safe', {}, 'safe'],
    ['before there is one on record is safe', { record: undefined, claim: undefined }, 'safe'],
    ['whose claim is being deleted is terminating', { claim: going }, 'terminating'],
    ['that is being deleted itself is terminating', { volume: goingVolume }, 'terminating'],
    ['whose claim has lost it', { claim: claimOf({}, 'Lost'), volume: undefined }, 'lost'],
    ['whose claim has lost it, and is there all the same', { claim: claimOf({}, 'Lost'), volume: kept }, 'released'],
    ['whose claim is gone', { claim: undefined, volume: kept, bound: undefined }, 'released'],
    ['whose claim is gone, and which waits for none', { claim: undefined, volume: unclaimed }, 'released'],
    ['that is gone with its claim', { claim: undefined, volume: undefined }, 'lost'],
    ['that is reserved for another claim', { claim: undefined, volume: ofAnother }, 'lost'],
    ['that another claim has by uid', { claim: undefined, volume: volumeOf({ claimUid: 'claim-9' }) }, 'lost'],
    ['that is emptied', { claim: undefined, volume: volumeOf({ isTerminating: true }) }, 'lost'],
    ['that goes, and is kept', { claim: undefined, volume: goingVolume }, 'released'],
    ['with a claim of ours anew', { claim: anew, volume: volumeOf({ ...retained, claimUid: 'claim-2' }) }, 'released'],
    ['with a claim of ours anew, and which waits for none', { claim: anew, volume: unclaimed }, 'released'],
    ['with a claim of ours anew, not bound yet', { claim: anew, volume: kept }, 'released'],
    ["with somebody else's claim by its name", { claim: theirs, volume: kept }, 'lost'],
    [
      'with a claim of ours for another volume by its name',
      { claim: { ...anew, spec: { ...anew.spec, volumeName: 'pv-9' } }, volume: kept },
      'lost',
    ],
    [
      'that is on record without a name',
      { claim: anew, volume: kept, record: { claim: name, uid: 'claim-1', systemIdentifier: '7' } },
      'lost',
    ],
  ])('%s', (_, given, state) => {
    expect(volumeStateOf(observedOf(given))).toBe(state)
  })

  test.each<[string, PersistentVolumeClaim, Given, boolean]>([
    ['of ours, for the volume', anew, {}, true],
    ['that is on record itself', claim, {}, false],
    ["of somebody else's", theirs, {}, false],
    ['for another volume', { ...anew, spec: { volumeName: 'pv-9' } }, {}, false],
    ['for none', { ...anew, spec: {} }, {}, false],
    [
      'for none, where none is named',
      { ...anew, spec: {} },
      { record: { ...record, volumeName: undefined } as never },
      false,
    ],
  ])('a claim %s replaces the missing one, or does not', (_, one, given, is) => {
    expect(isRebound(observedOf(given), one)).toBe(is)
  })
})

describe('whether the data outlive the claim', () => {
  test.each<[string, Given, boolean]>([
    ['as the volume says', { volume: kept }, true],
    ['not where it does not say so', {}, false],
    ['not where it goes', { volume: goingVolume }, false],
    ['not where it is not there', { volume: undefined }, false],
    ['not where what the claim has is not kept', { volume: kept, bound: volumeOf({ name: 'pv-9' }) }, false],
    ['whatever a strange claim has', { claim: theirs, volume: kept, bound: volumeOf({ name: 'pv-9' }) }, true],
    ['also where no claim has it', { claim: undefined, volume: kept, bound: undefined }, true],
  ])('%s', (_, given, is) => {
    expect(outlivesClaim(observedOf(given))).toBe(is)
  })
})

describe('whether Postgres may be running on the volume on record', () => {
  const crashed = { reason: 'CrashLoopBackOff', message: '', refusal: undefined, diskFull: false }
  const made = Date.parse(at)
  const later = claimOf({ uid: 'claim-2', creationTimestamp: at })
  test.each<[string, Given, boolean]>([
    ['a pod that runs', {}, true],
    ['no pod', { pod: undefined }, false],
    ['one that terminates', { pod: { ...running, terminating: true } }, false],
    ['one that has not come to run', { pod: down }, false],
    ['one that crashed, and comes back', { pod: { ...down, trouble: crashed, isStuck: false } }, true],
    ['one that does not come back', { pod: { ...down, trouble: crashed, isStuck: true } }, false],
    ['one without any claim', { claim: undefined }, true],
    ['one made before another claim had the name', { claim: later, pod: { ...running, createdAt: made - 1 } }, true],
    ['one made in the same second', { claim: later, pod: { ...running, createdAt: made } }, true],
    ['one made after', { claim: later, pod: { ...running, createdAt: made + 1 } }, false],
    ['one of which nobody knows', { claim: later, pod: { ...running, createdAt: undefined } }, true],
    [
      'one made after its own claim',
      { claim: claimOf({ creationTimestamp: at }), pod: { ...running, createdAt: made + 1 } },
      true,
    ],
  ])('%s', (_, given, is) => {
    expect(mayRunOnRecordedVolume(observedOf(given))).toBe(is)
  })
})

describe('the actions for a volume', () => {
  const change = (to: object) => ({ do: 'change-volume', name: 'pv', uid: 'pv-uid', change: to })
  const [mark, retain] = [change({ to: 'mark', owner }), change({ to: 'retain', owner })]
  const giveBack = change({ to: 'give-back', claimUid: undefined })
  const unclaim = change({ to: 'unclaim' })
  const copy = { do: 'copy-volume', from: 'pv', uid: 'pv-uid', name: 'espalier-claim-1', owner }
  const letGo = { do: 'delete', kind: 'PersistentVolumeClaim', name, namespace, uid: 'claim-1' }
  const claimAnew = (volume: VolumeFacts) => ({
    do: 'create-claim',
    draft: reboundClaimDraft({ owner, incarnation: settled.incarnation, number: 0 }, '7', volume),
  })
  const still = { pod: undefined, replicas: 0 }

  test.each<[string, Given, object[]]>([
    ['that serves: nothing', {}, []],
    ['that does not say whose it is', { volume: volumeOf({ isMarked: false }) }, [mark]],
    ['that is not known', { volume: undefined }, []],
    ['of no claim', { claim: undefined, record: undefined }, []],
    ['of a suspended database: it is retained', { suspended: true }, [retain]],
    ['of a suspended database that never had data', { suspended: true, record: undefined }, []],
    ['of a suspended database, retained', { suspended: true, volume: kept }, []],
    ['that was retained, and serves again', { volume: kept }, [giveBack]],
    ['that was retained by its own owner', { volume: volumeOf({ isRetained: true }) }, []],
    ['that was retained, before a pod runs', { volume: kept, pod: down }, []],
    ['that was retained, without a pod', { volume: kept, pod: undefined }, []],
    ['that was retained, before it is bound', { volume: volumeOf({ ...retained, isBound: false }) }, []],
    [
      'that was retained, before it is bound to this claim',
      { volume: volumeOf({ ...retained, claimUid: undefined }) },
      [],
    ],

    ['whose claim goes: it is retained first', { claim: going }, [retain]],
    ['whose claim goes, also where all is still', { claim: going, ...still, suspended: true }, [retain]],
    ['whose claim goes, retained', { claim: going, volume: kept }, []],
    ['that goes itself: it is retained first', { volume: volumeOf({ isTerminating: true }) }, [retain]],
    ['that goes itself: there is to be another for its storage', { volume: goingVolume }, [copy]],
    ['that goes, with a copy', { volume: goingVolume, copy: kept }, []],
    [
      'that goes, with a copy on record: its claim is let go of when all is still',
      { bound: goingVolume, volume: kept, copy: kept, ...still, suspended: true },
      [letGo],
    ],
    ['but not of a pod', { bound: goingVolume, volume: kept, copy: kept, suspended: true }, []],
    [
      'nor before none is to come',
      { bound: goingVolume, volume: kept, copy: kept, suspended: true, ...still, replicas: 1 },
      [],
    ],
    [
      'nor while it is not kept',
      { bound: volumeOf({ isTerminating: true }), volume: kept, copy: kept, suspended: true, ...still },
      [change({ to: 'retain', owner })],
    ],
    ['nor twice', { claim: going, bound: goingVolume, volume: kept, copy: kept, suspended: true, ...still }, []],

    ['without a claim: it is retained first', { claim: undefined, volume: volumeOf(), bound: undefined }, [retain]],
    ['without a claim, under a Postgres', { claim: undefined, volume: kept, bound: undefined }, []],
    [
      'without a claim, and still: it is let go of',
      { claim: undefined, volume: kept, bound: undefined, ...still },
      [unclaim],
    ],
    [
      'without a claim, and free: it gets a new one',
      { claim: undefined, volume: unclaimed, bound: undefined, ...still },
      [claimAnew(unclaimed)],
    ],
    [
      'with a new claim that it is reserved for',
      { claim: anew, volume: volumeOf({ ...retained, claimUid: 'claim-2' }), ...still },
      [],
    ],
    ['with a new claim, and free', { claim: anew, volume: unclaimed, ...still }, []],
    ['with a new claim, but of the old one', { claim: anew, volume: kept, bound: undefined, ...still }, [unclaim]],
    ['of a claim that has lost it: the claim goes', { claim: claimOf({}, 'Lost'), volume: kept, ...still }, [letGo]],
    [
      'of a claim that has lost it, and goes',
      { claim: claimOf({ deletionTimestamp: at }, 'Lost'), volume: kept, ...still },
      [],
    ],
    ['of a claim that has lost it, under a Postgres', { claim: claimOf({}, 'Lost'), volume: kept }, []],

    ['that is lost, and found: it is retained', { claim: theirs, bound: volumeOf({ name: 'pv-9' }) }, [retain]],
    ['that is lost, and retained', { claim: theirs, volume: kept }, []],
    ['that is lost', { claim: undefined, volume: undefined }, []],
  ])('%s', (_, given, actions) => {
    expect(protectVolume(observedOf(given), owner)).toEqual(actions)
  })
})

describe('whether Postgres is stopped', () => {
  const large = { isResizing: true }
  const lost = { claim: theirs, volume: kept, bound: volumeOf({ name: 'pv-9' }) }
  const gone = { claim: theirs, volume: undefined, bound: undefined }
  const unmade = { ...claimOf({ deletionTimestamp: at }, 'Pending'), spec: {} }
  // May it be, does that bind the volume anew, and is no pod to run?
  test.each<[string, Given, [may: boolean, binds: boolean, is: boolean]]>([
    ['where all is well', {}, [true, false, false]],
    ['where it is suspended', { suspended: true }, [true, false, true]],
    ['whose claim goes with the data', { claim: going }, [false, true, false]],
    ['whose claim goes with the data, suspended', { claim: going, suspended: true }, [false, true, false]],
    [
      'whose claim goes with the data, suspended and stopped',
      { claim: going, suspended: true, pod: undefined },
      [false, true, true],
    ],
    ['whose claim goes, and whose data stay', { claim: going, volume: kept }, [true, true, false]],
    ['the same, suspended', { claim: going, volume: kept, suspended: true }, [true, true, true]],
    ['the same, where Postgres has stopped by itself', { claim: going, volume: kept, pod: down }, [true, true, true]],
    [
      'the same, where its pod goes',
      { claim: going, volume: kept, pod: { ...running, terminating: true } },
      [true, true, true],
    ],
    ['the same, where there is no pod', { claim: going, volume: kept, pod: undefined }, [true, true, true]],
    ['the same, where a stop was begun', { claim: going, volume: kept, replicas: 0 }, [true, true, true]],
    ['the same, where another size is on its way', { claim: going, volume: kept, ...large }, [true, true, true]],
    [
      'the same, where that came to nothing',
      { claim: going, volume: kept, ...large, progressing: false },
      [true, true, false],
    ],
    [
      'the same, where that size is not there',
      { claim: going, volume: kept, ...large, hasSize: false },
      [true, true, false],
    ],
    ['the same, where something else is done', { claim: going, volume: kept, progressing: true }, [true, true, false]],
    [
      'that was never made, and whose claim is replaced',
      { record: undefined, claim: unmade, pod: undefined },
      [true, false, true],
    ],
    ['of another size, where all is well', large, [true, false, false]],
    ['of another size, whose data would go', { claim: going, ...large }, [false, true, false]],
    [
      'whose claim is gone, and whose data stay',
      { claim: undefined, volume: kept, bound: undefined },
      [true, true, true],
    ],
    [
      'whose claim is gone, and whose data are not sure to',
      { claim: undefined, bound: undefined },
      [false, true, false],
    ],
    ['whose volume is lost to another claim', { ...lost, volume: volumeOf(), bound: undefined }, [false, false, false]],
    ['the same, kept, under a Postgres', lost, [true, false, false]],
    ['the same, kept, suspended', { ...lost, suspended: true }, [true, false, true]],
    ['whose volume is gone, under a Postgres', gone, [false, false, false]],
    ['whose volume is gone, under a Postgres, suspended', { ...gone, suspended: true }, [false, false, false]],
    ['whose volume is gone, and nothing runs', { ...gone, pod: undefined }, [true, false, true]],
  ])('%s', (_, given, expected) => {
    const observed = observedOf(given)
    expect([mayStop(observed), stopsToRebind(observed), isStopped(observed)]).toEqual(expected)
  })

  test.each<[string, Given, boolean]>([
    ['where all is well', {}, true],
    ['where the data would go with its pod', { claim: going }, false],
    ['where no pod holds the data that go', { claim: going, pod: undefined }, true],
  ])('when it is fenced, %s', (_, given, is) => {
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
  const lost = { claim: theirs, volume: kept, bound: volumeOf({ name: 'pv-9' }) }
  test.each<[string, Given, boolean]>([
    ['waits', waiting, true],
    ['waits also where the volume is lost', { ...waiting, ...lost }, true],
    ['does not wait where nothing does', { ...waiting, suspensionBlock: undefined }, false],
    ['does not wait where it has begun', { ...waiting, replicas: 0 }, false],
    ['waits for a pod that is replaced', { ...waiting, pod: { ...running, terminating: true } }, true],
    ['waits for one that is down', { ...waiting, pod: down }, true],
    ['waits for one that was deleted', { ...waiting, pod: undefined }, true],
    ['does not wait for a pod on a volume that is lost', { ...waiting, ...lost, pod: down }, false],
    ['does not wait for one on a volume that goes', { ...waiting, claim: going, pod: undefined }, false],
  ])('%s', (_, given, waits) => {
    const observed = observedOf(given)
    expect([isHeld(observed), isStopped(observed)]).toEqual([waits, !waits])
    expect(isHeld(observedOf({ ...given, suspended: false })), 'nor is there anything to wait without it').toBe(false)
  })
})

describe('the recorded volume', () => {
  const says = (one: PersistentVolumeClaim, systemIdentifier: string): PersistentVolumeClaim => ({
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
  const whole = { claim: name, uid: 'claim-2', volumeName: 'pv', systemIdentifier: '7' }
  const moved = { claim: undefined, volume: undefined, bound: undefined, pod: undefined }
  const rebound = volumeOf({ ...retained, claimUid: 'claim-2' })
  const proven = { ...running, volume: 'claim-2' }

  test.each<[string, Given, object | undefined]>([
    ['no claim', { ...moved, record: undefined }, undefined],
    ['one that says nothing of its data', { claim: silent(anew), record: undefined }, undefined],
    ['the one of a database put back without its record', { claim: says(anew, '7'), record: undefined }, whole],
    ['the one on record', { claim: says(claim, '7') }, undefined],
    ['one that was put back, where the volume is gone', { ...moved, claim: says(anew, '7') }, whole],
    ['the same, of other data', { ...moved, claim: says(anew, '8') }, undefined],
    [
      'the same, where Postgres may run on the one on record',
      { ...moved, claim: says(anew, '7'), pod: running },
      undefined,
    ],
    ["the same, of somebody else's", { ...moved, claim: says(theirs, '7') }, undefined],
    ["the same, of nobody's that lives", { ...moved, claim: says(theirs, '7'), isOrphanClaim: true }, whole],
    [
      'one of ours, once the volume is its own',
      { claim: says(anew, '7'), volume: rebound, pod: undefined },
      { ...record, uid: 'claim-2' },
    ],
    ['one of ours, before', { claim: says(anew, '7'), volume: kept, pod: undefined }, undefined],
    [
      'one of ours for another volume',
      { claim: says({ ...anew, spec: { volumeName: 'pv-9' } }, '7'), volume: rebound, pod: undefined },
      undefined,
    ],
    [
      'one that the pod runs on, whatever the record says',
      { claim: says(anew, '8'), pod: proven },
      { ...whole, systemIdentifier: '8' },
    ],
    ["one that the pod runs on, of somebody else's", { claim: says(theirs, '8'), pod: proven }, undefined],
    ['one that the pod does not run on', { claim: says(anew, '8'), pod: running }, undefined],
    ['one that no pod runs on', { claim: says(anew, '8'), pod: undefined }, undefined],
    ['one that a pod is to run on', { claim: says(anew, '8'), pod: { ...proven, address: undefined } }, undefined],
    ['one that is not bound', { claim: says(claimOf({ uid: 'claim-2' }, 'Pending'), '8'), pod: proven }, undefined],
  ])('is taken from a claim, or not: %s', (_, given, expected) => {
    expect(recordFromClaim(observedOf(given))).toEqual(expected)
  })

  const answered = { state: 'answered', systemIdentifier: '7' } as never
  test.each<[string, Given, boolean, object | undefined]>([
    ['is made when Postgres has answered', { record: undefined }, true, record],
    ['and not before', { record: undefined }, false, undefined],
    ['nor without a claim', { record: undefined, claim: undefined }, true, undefined],
    ['says the same for good', { claim: anew, volume: rebound }, true, record],
    [
      'names the other object for the same storage',
      { copy: volumeOf({ name: 'copy' }) },
      true,
      { ...record, volumeName: 'copy' },
    ],
    [
      'learns the name of its volume',
      { record: { claim: name, uid: 'claim-1', systemIdentifier: '7' } },
      false,
      record,
    ],
    [
      'keeps the name of its volume, whatever its claim says',
      { claim: { ...claim, spec: { volumeName: 'pv-9' } } },
      true,
      record,
    ],
    [
      'learns no name of another claim',
      { claim: anew, record: { claim: name, uid: 'claim-1', systemIdentifier: '7' } },
      true,
      { claim: name, uid: 'claim-1', systemIdentifier: '7' },
    ],
  ])('%s', (_, given, hasAnswered, expected) => {
    expect(nextRecord(observedOf(given), hasAnswered ? answered : undefined)).toEqual(expected)
  })
})

describe('a volume whose claimRef another manager changed', () => {
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
    ['that was removed', { volume: removed }],
    ['that names another claim', { volume: another }],
    ['that names a claim of another namespace', { volume: volumeOf({ claim: 'other/one', claimUid: undefined }) }],
    ['that has another uid', { volume: volumeOf({ claimUid: 'claim-9' }) }],
    ['whose claim the cluster calls lost by now', { claim: claimOf({}, 'Lost'), volume: another }],
  ])('%s is reserved for its claim again', (_, given) => {
    expect(protectVolume(observedOf(given), owner)).toEqual(reserved)
  })
  test.each<[string, Given]>([
    ['that is as it was', {}],
    ['that lacks the uid alone', { volume: volumeOf({ claimUid: undefined }) }],
    ['before the claim has its volume', { claim: claimOf({}, 'Pending'), volume: removed }],
    ['of a claim that is not the one on record', { claim: anew, volume: removed }],
    ['of a claim that is being deleted', { claim: going, volume: removed }],
    ['that is being deleted', { volume: volumeOf({ claimUid: undefined, isTerminating: true }) }],
  ])('%s is not', (_, given) => {
    expect(protectVolume(observedOf(given), owner)).not.toMatchObject([{ change: { to: 'reserve' } }])
  })
})
