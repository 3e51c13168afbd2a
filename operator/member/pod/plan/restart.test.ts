/** When a pod is deleted for another to be made, what waits for that, and what is said of it. */

import { describe, expect, test } from 'vitest'
import type { StatefulSet } from '../../../../cluster/index.ts'
import { timestamp } from '../../../../values/time.ts'
import { prerequisitesOf } from '../../../endpoint/plan/index.ts'
import { type Given, settledDatabase } from '../../../testing/settled.ts'
import type { PostgresAnswer } from '../../observed.ts'
import type { VolumeFacts } from '../../storage/persistent-volume.ts'
import { maintenanceAnnotation, restartAnnotation } from '../stateful-set.ts'
import { isWorthRestart, pendingRestarts, restartFinding } from './pending-restart.ts'
import { restart } from './restart.ts'
import { type Newest, noRestarts, type RestartsOf, templateMarks } from './restart-marks.ts'

const { now, children, status: onRecord, observedOf, assessmentOf, actionsOf } = settledDatabase()
const { claim, statefulSet, configuration } = children
const { podSettings, pod } = observedOf()
if (pod === undefined) throw new Error('it runs')
const at = '2026-01-01T00:00:00Z'
const newer = { podSettings: { ...podSettings, priorityClassName: 'databases' } }
const trouble = { reason: 'CrashLoopBackOff', message: 'it ended', refusal: undefined, diskFull: false }
const changed = <T extends { metadata: object }>(object: T, metadata: object): T => ({
  ...object,
  metadata: { ...object.metadata, ...metadata },
})
const expired = (message = 'certificate has expired', reason = 'tls'): PostgresAnswer & { state: 'refused' } => ({
  ...{ state: 'refused', reason, message },
})
const issued = (issuedAt: number | undefined, state: 'good' | 'due' = 'good') => ({
  certificate: { state, fingerprint: 'f', issuedAt, isLoaded: false },
})

describe('a pod is deleted to be created again', () => {
  const deleted = [{ do: 'delete', kind: 'Pod', name: pod.name, namespace: 'databases', uid: pod.uid }]
  const restartsFor = (given: Given, restarts?: RestartsOf) => {
    const seen = observedOf(given)
    return restart(seen, assessmentOf(given, restarts), prerequisitesOf(seen).certificateIssuedAt)
  }
  const bySize: Given = { pod: { size: 'large-v1' } }
  const stuck: Given = { pod: { address: undefined, trouble, template: 'older' } }
  const ended: Given = { answer: expired(), pod: { startedAt: 1 }, rest: issued(2) }
  const mark: RestartsOf = () => ({
    marks: { restart: 'r', maintenance: undefined },
    isUnsure: false,
    isGivenUp: false,
  })
  const marked = assessmentOf({}, mark).desired.statefulSet
  const resting = assessmentOf({ ...bySize, spec: { suspended: true } }).desired.statefulSet

  test.each<[string, Given, RestartsOf?]>([
    ['where it is of another size', bySize],
    ['where it stands on another volume', { pod: { volume: 'another' } }],
    ['where a restart is asked for', { children: { statefulSet: marked } }, mark],
    ['where it does not run and was made from an older template', stuck],
    ['where its certificate has ended before the present one came', ended],
    [
      'once the cluster has taken the StatefulSet',
      {
        ...bySize,
        children: {
          statefulSet: { ...changed(statefulSet, { generation: 2 }), status: { observedGeneration: 2, replicas: 1 } },
        },
      },
    ],
    [
      'where the cluster does not say what it has taken',
      { ...bySize, children: { statefulSet: changed(statefulSet, { generation: 2 }) } },
    ],
  ])('%s', (_, given, restarts) => {
    expect(restartsFor(given, restarts)).toEqual(deleted)
  })

  test.each<[string, Given, RestartsOf?]>([
    ['where it is as it is to be', {}],
    ['where it is going', { pod: { size: 'large-v1', terminating: true } }],
    ['where there is none', { pod: undefined }],
    ['where the database is to be suspended', { ...bySize, spec: { suspended: true } }],
    [
      'where its pod is on its way down as it is',
      { ...bySize, spec: { suspended: true }, children: { statefulSet: resting } },
    ],
    ["where the data are another's", { ...bySize, answer: { systemIdentifier: 'another' } }],
    ['where the data are lost', { ...bySize, children: { claim: undefined } }],
    ['where the data would go with it', { ...bySize, children: { claim: changed(claim, { deletionTimestamp: at }) } }],
    ['where its size is not there', { ...bySize, rest: { size: undefined } }],
    ['before its StatefulSet is there', { ...bySize, children: { statefulSet: undefined } }],
    [
      'before its StatefulSet is as it is to be',
      { ...bySize, children: { statefulSet: changed(statefulSet, { annotations: {} }) } },
    ],
    ['before its StatefulSet says that it is asked for', {}, mark],
    [
      'before its configuration is as it is to be',
      { ...bySize, children: { configuration: changed(configuration, { annotations: {} }) } },
    ],
    [
      'before the cluster has taken the StatefulSet',
      {
        ...bySize,
        children: {
          statefulSet: { ...changed(statefulSet, { generation: 2 }), status: { observedGeneration: 1, replicas: 1 } },
        },
      },
    ],
    ['where it runs and was made from an older template', { pod: { template: 'older' } }],
    ['where it does not run and was made from the newest', { pod: { address: undefined, trouble } }],
    ['for a certificate that it could have shown', { ...ended, pod: { startedAt: 3 } }],
    ['for a certificate of the same moment', { ...ended, pod: { startedAt: 2 } }],
    ['for a certificate that is yet to come', { ...ended, rest: issued(2, 'due') }],
    ['for a certificate of which nobody knows when it came', { ...ended, rest: issued(undefined) }],
    ['for one where nobody knows since when it runs', { ...ended, pod: {} }],
    ['for a certificate that is merely not trusted', { ...ended, answer: expired('self-signed certificate') }],
    ['for another refusal', { ...ended, answer: expired('certificate has expired', 'auth') }],
  ])('not %s', (_, given, restarts) => {
    expect(restartsFor(given, restarts)).toEqual([])
  })

  test('by scaling its StatefulSet to zero, if the volume needs a new claim', () => {
    const volume: VolumeFacts = {
      ...{ name: 'pv', uid: 'pv-uid', isTerminating: false, isRetained: true, policyBefore: 'Delete', isBound: true },
      ...{ claim: `databases/${claim.metadata.name}`, claimUid: claim.metadata.uid, isMarked: true },
      ...{ accessModes: [], capacity: '1Gi', storageClass: '', isProvisioned: true },
    }
    const given: Given = {
      ...bySize,
      status: { volume: { ...onRecord.volume, volumeName: 'pv' } as NonNullable<typeof onRecord.volume> },
      children: { claim: changed(claim, { deletionTimestamp: at }) },
      rest: { volumes: { bound: volume, recorded: volume, copy: undefined } },
    }
    const [action, ...others] = actionsOf(given)
    expect(others).toEqual([])
    expect(action).toMatchObject({ do: 'apply', kind: 'StatefulSet', draft: { spec: { replicas: 0 } } })
  })
})

describe('the restart marks of a template', () => {
  const live = (annotations: Record<string, string>) => {
    const spec = statefulSet.spec as NonNullable<StatefulSet['spec']>
    return observedOf({
      children: {
        statefulSet: { ...statefulSet, spec: { ...spec, template: { ...spec.template, metadata: { annotations } } } },
      },
    })
  }
  const restarts = noRestarts({ newestTemplate: undefined, image: undefined, configurationDigest: undefined })
  const marks = { restart: 'r', maintenance: 'm' }

  test('of finished restarts are kept, so that their end changes nothing', () => {
    expect(templateMarks(live({ [restartAnnotation]: 'r', [maintenanceAnnotation]: 'm' }), restarts)).toEqual(marks)
    expect(templateMarks(live({}), restarts)).toEqual({ restart: undefined, maintenance: undefined })
    expect(templateMarks(observedOf({ children: { statefulSet: undefined } }), { ...restarts, marks })).toEqual(marks)
  })
  test('of requested restarts replace the previous ones', () => {
    expect(
      templateMarks(live({ [restartAnnotation]: 'r0', [maintenanceAnnotation]: 'm0' }), { ...restarts, marks }),
    ).toEqual(marks)
  })
  test('request nothing by themselves', () => {
    expect(restarts).toStrictEqual({
      marks: { restart: undefined, maintenance: undefined },
      isUnsure: false,
      isGivenUp: false,
    })
  })
})

const { newestTemplate, image, configurationDigest } = assessmentOf().desired
const newest: Newest = { newestTemplate, image, configurationDigest }
const since = '2025-12-31T00:00:00Z'
const onImage = { reason: 'Image', message: 'the pod runs postgres:18; postgres:18.1 is what a new one runs' }
const onTemplate = { reason: 'PodTemplate', message: 'the pod was made from an older template' }
const onSettings = { reason: 'Settings', message: 'changed, and taken at a start only: a, b' }
const onCopies = {
  reason: 'Configuration',
  message: 'the pod is from before configuration was reloaded: it has copies, made as it started',
}
const other: Newest = { ...newest, newestTemplate: 'newer' }
const copied = { isMounted: false, inForce: 'older' }
const told = (...reasons: string[]) => reasons.map(reason => ({ reason, message: 'as before', since }))

describe('the pending restart', () => {
  test.each<[string, Given, Newest, object[]]>([
    ['is nothing', {}, newest, []],
    ['is another template', {}, other, [onTemplate]],
    ['is another image', {}, { ...other, image: 'postgres:18.1' }, [onImage]],
    [
      'is another template, where it is not known what the pod runs',
      { pod: { image: undefined } },
      { ...other, image: 'postgres:18.1' },
      [onTemplate],
    ],
    ['is another template, where none has that version now', {}, { ...other, image: undefined }, [onTemplate]],
    ['is no image alone', {}, { ...newest, image: 'postgres:18.1' }, []],
    ['is no template that is not known', {}, { ...newest, newestTemplate: undefined }, []],
    ['is a setting', { configuration: { pendingRestart: ['a', 'b'] } }, newest, [onSettings]],
    ['is what a pod with copies cannot read', { configuration: copied }, newest, [onCopies]],
    [
      'is nothing of copies that are the present ones',
      { configuration: { ...copied, inForce: configurationDigest ?? null } },
      newest,
      [],
    ],
    ['is nothing of files that it refused', { configuration: { ...copied, refused: 'wrong' } }, newest, []],
    ['is nothing of files that a reload brings', { configuration: { inForce: 'older' } }, newest, []],
    [
      'is nothing of files that are not known',
      { configuration: copied },
      { ...newest, configurationDigest: undefined },
      [],
    ],
    [
      'is all of it',
      { configuration: { ...copied, pendingRestart: ['a', 'b'] } },
      other,
      [onTemplate, onSettings, onCopies],
    ],
    ['is nothing without a pod', { pod: undefined }, other, []],
    ['is nothing of a pod that goes', { pod: { terminating: true } }, other, []],
    ['is nothing of what is to be suspended', { spec: { suspended: true } }, other, []],
  ])('%s', (_, given, wanted, expected) => {
    const found = pendingRestarts(observedOf(given), wanted, now)
    expect(found).toEqual(expected.map(entry => ({ ...entry, since: timestamp(now) })))
  })
  test('is pending since it was first found', () => {
    const given = {
      status: { pendingRestart: told('Settings', 'Configuration') },
      configuration: { pendingRestart: ['a', 'b'] },
    }
    expect(pendingRestarts(observedOf(given), other, now)).toEqual([
      { ...onTemplate, since: timestamp(now) },
      { ...onSettings, since },
    ])
  })
  test('is kept as recorded until Postgres answers', () => {
    const status = { pendingRestart: told('PodTemplate', 'Settings', 'Configuration', 'Image') }
    for (const answer of [undefined, expired()])
      expect(pendingRestarts(observedOf({ status, answer }), newest, now)).toEqual(told('Settings', 'Configuration'))
    expect(pendingRestarts(observedOf({ status }), newest, now)).toEqual([])
  })
  test('has a message no longer than a condition allows', () => {
    const [entry] = pendingRestarts(observedOf({ configuration: { pendingRestart: ['x'.repeat(2000)] } }), newest, now)
    expect(entry?.message).toHaveLength(1000)
  })
  test('is reported by its first reason, with all messages', () => {
    expect(restartFinding([])).toBeUndefined()
    expect(restartFinding([onTemplate, onSettings].map(entry => ({ ...entry, since })))).toEqual({
      status: 'True',
      reason: 'PodTemplate',
      message: `${onTemplate.message}; ${onSettings.message}. It comes into force at the next restart`,
    })
  })
})

describe('a restart', () => {
  test.each<[string, Given, Newest, boolean | undefined]>([
    ['of nothing brings what is to run', { pod: undefined }, newest, true],
    ['brings another template', { answer: undefined }, other, true],
    ['brings a setting', { configuration: { pendingRestart: ['a'] } }, newest, true],
    ['brings nothing', {}, newest, false],
    ['brings nothing, whatever is on record', { status: { pendingRestart: told('Settings') } }, newest, false],
    ['brings nothing of what nobody ever said', { answer: undefined }, newest, false],
    [
      'brings what is on record, or not: only Postgres knows',
      { answer: undefined, status: { pendingRestart: told('Settings') } },
      newest,
      undefined,
    ],
    [
      'brings no template that is on record alone',
      { answer: undefined, status: { pendingRestart: told('PodTemplate') } },
      newest,
      false,
    ],
  ])('%s', (_, given, wanted, is) => {
    expect(isWorthRestart(observedOf(given), wanted)).toBe(is)
  })
  test('applies the pod template of a newer release', () => {
    const { desired } = assessmentOf({ rest: newer })
    expect(isWorthRestart(observedOf({ rest: newer }), desired)).toBe(true)
  })
})
