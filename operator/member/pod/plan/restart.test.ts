/** When the operator restarts a pod, which changes are pending until then, and what it reports. */

import { describe, expect, test } from 'vitest'
import type { StatefulSet } from '../../../../cluster/index.ts'
import { timestamp } from '../../../../values/time.ts'
import { prerequisitesOf } from '../../../endpoint/plan/index.ts'
import { type Given, reconciledDatabase } from '../../../testing/reconciled-database.ts'
import type { PostgresAnswer } from '../../observed.ts'
import type { VolumeFacts } from '../../storage/persistent-volume.ts'
import { maintenanceAnnotation, restartAnnotation } from '../stateful-set.ts'
import { isWorthRestart, pendingRestarts, restartFinding } from './pending-restart.ts'
import { restart } from './restart.ts'
import { type Newest, noRestarts, type RestartsOf, templateRestartAnnotations } from './restart-annotations.ts'

const { now, children, status: onRecord, observedOf, assessmentOf, actionsOf } = reconciledDatabase()
const { claim, statefulSet, configuration } = children
const { podSettings, pod } = observedOf()
if (pod === undefined) throw new Error('the pod does not exist')
const at = '2026-01-01T00:00:00Z'
const newer = { podSettings: { ...podSettings, priorityClassName: 'databases' } }
const problem = { reason: 'CrashLoopBackOff', message: 'it ended', refusal: undefined, diskFull: false }
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

describe('the operator', () => {
  const deleted = [{ do: 'delete', kind: 'Pod', name: pod.name, namespace: 'databases', uid: pod.uid }]
  const restartsFor = (given: Given, restarts?: RestartsOf) => {
    const seen = observedOf(given)
    return restart(seen, assessmentOf(given, restarts), prerequisitesOf(seen).certificateIssuedAt)
  }
  const bySize: Given = { pod: { size: 'large-v1' } }
  const stuck: Given = { pod: { address: undefined, problem, template: 'older' } }
  const ended: Given = { answer: expired(), pod: { startedAt: 1 }, rest: issued(2) }
  const requestedRestart: RestartsOf = () => ({
    restartAnnotations: { restart: 'r', maintenance: undefined },
    isUnsure: false,
    isGivenUp: false,
  })
  const annotated = assessmentOf({}, requestedRestart).desired.statefulSet
  const resting = assessmentOf({ ...bySize, spec: { suspended: true } }).desired.statefulSet

  test.each<[string, Given, RestartsOf?]>([
    ['if it has another size', bySize],
    ['if it has another volume', { pod: { volume: 'another' } }],
    ['if a restart is requested', { children: { statefulSet: annotated } }, requestedRestart],
    ['if it does not run and was created from an older template', stuck],
    ["if its certificate expired, and the valid certificate was issued after the pod's start", ended],
    [
      'if the cluster has observed the StatefulSet',
      {
        ...bySize,
        children: {
          statefulSet: { ...changed(statefulSet, { generation: 2 }), status: { observedGeneration: 2, replicas: 1 } },
        },
      },
    ],
    [
      'if the cluster reports no observed generation',
      { ...bySize, children: { statefulSet: changed(statefulSet, { generation: 2 }) } },
    ],
  ])('restarts the pod %s', (_, given, restarts) => {
    expect(restartsFor(given, restarts)).toEqual(deleted)
  })

  test.each<[string, Given, RestartsOf?]>([
    ['if it has its desired state', {}],
    ['if it is terminating', { pod: { size: 'large-v1', terminating: true } }],
    ['if there is no pod', { pod: undefined }],
    ['if the database is to be suspended', { ...bySize, spec: { suspended: true } }],
    [
      'if its StatefulSet is already scaled to zero',
      { ...bySize, spec: { suspended: true }, children: { statefulSet: resting } },
    ],
    ['if the data belong to another database', { ...bySize, answer: { systemIdentifier: 'another' } }],
    ['if the data are lost', { ...bySize, children: { claim: undefined } }],
    [
      'if the data would be deleted with it',
      { ...bySize, children: { claim: changed(claim, { deletionTimestamp: at }) } },
    ],
    ['if its Size does not exist', { ...bySize, rest: { size: undefined } }],
    ['before its StatefulSet exists', { ...bySize, children: { statefulSet: undefined } }],
    [
      'before its StatefulSet has its desired state',
      { ...bySize, children: { statefulSet: changed(statefulSet, { annotations: {} }) } },
    ],
    ['before its StatefulSet has the restart annotation', {}, requestedRestart],
    [
      'before its configuration has its desired state',
      { ...bySize, children: { configuration: changed(configuration, { annotations: {} }) } },
    ],
    [
      'before the cluster has observed the StatefulSet',
      {
        ...bySize,
        children: {
          statefulSet: { ...changed(statefulSet, { generation: 2 }), status: { observedGeneration: 1, replicas: 1 } },
        },
      },
    ],
    ['if it runs and was created from an older template', { pod: { template: 'older' } }],
    ['if it does not run and was created from the newest template', { pod: { address: undefined, problem } }],
    ["for a certificate issued before the pod's start", { ...ended, pod: { startedAt: 3 } }],
    ["for a certificate issued at the pod's start", { ...ended, pod: { startedAt: 2 } }],
    ['for a certificate that is not issued yet', { ...ended, rest: issued(2, 'due') }],
    ['for a certificate with an unknown issue time', { ...ended, rest: issued(undefined) }],
    ["if the pod's start time is unknown", { ...ended, pod: {} }],
    ['for a certificate that is merely not trusted', { ...ended, answer: expired('self-signed certificate') }],
    ['for another refusal', { ...ended, answer: expired('certificate has expired', 'auth') }],
  ])('does not restart the pod %s', (_, given, restarts) => {
    expect(restartsFor(given, restarts)).toEqual([])
  })

  test('restarts the pod by scaling its StatefulSet to zero, if the volume needs a new claim', () => {
    const volume: VolumeFacts = {
      ...{ name: 'pv', uid: 'pv-uid', isTerminating: false, isRetained: true, policyBefore: 'Delete', isBound: true },
      ...{ claim: `databases/${claim.metadata.name}`, claimUid: claim.metadata.uid, isLabelled: true },
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

describe('the restart annotations of a template', () => {
  const live = (annotations: Record<string, string>) => {
    const spec = statefulSet.spec as NonNullable<StatefulSet['spec']>
    return observedOf({
      children: {
        statefulSet: { ...statefulSet, spec: { ...spec, template: { ...spec.template, metadata: { annotations } } } },
      },
    })
  }
  const restarts = noRestarts({ newestTemplate: undefined, image: undefined, configurationDigest: undefined })
  const restartAnnotations = { restart: 'r', maintenance: 'm' }

  test('of finished restarts remain, so that the template does not change', () => {
    expect(
      templateRestartAnnotations(live({ [restartAnnotation]: 'r', [maintenanceAnnotation]: 'm' }), restarts),
    ).toEqual(restartAnnotations)
    expect(templateRestartAnnotations(live({}), restarts)).toEqual({ restart: undefined, maintenance: undefined })
    expect(
      templateRestartAnnotations(observedOf({ children: { statefulSet: undefined } }), {
        ...restarts,
        restartAnnotations,
      }),
    ).toEqual(restartAnnotations)
  })
  test('of requested restarts replace the previous ones', () => {
    expect(
      templateRestartAnnotations(live({ [restartAnnotation]: 'r0', [maintenanceAnnotation]: 'm0' }), {
        ...restarts,
        restartAnnotations,
      }),
    ).toEqual(restartAnnotations)
  })
  test('do not request a restart by themselves', () => {
    expect(restarts).toStrictEqual({
      restartAnnotations: { restart: undefined, maintenance: undefined },
      isUnsure: false,
      isGivenUp: false,
    })
  })
})

const { newestTemplate, image, configurationDigest } = assessmentOf().desired
const newest: Newest = { newestTemplate, image, configurationDigest }
const since = '2025-12-31T00:00:00Z'
const onImage = { reason: 'Image', message: 'the pod runs postgres:18; a new pod runs postgres:18.1' }
const onTemplate = { reason: 'PodTemplate', message: 'the pod was created from an older template' }
const onSettings = { reason: 'Settings', message: 'changed settings require a restart: a, b' }
const onCopies = {
  reason: 'Configuration',
  message: 'the pod cannot reload its configuration: an older release created it with copies of the files',
}
const other: Newest = { ...newest, newestTemplate: 'newer' }
const copied = { isMounted: false, inForce: 'older' }
const pendingFor = (...reasons: string[]) => reasons.map(reason => ({ reason, message: 'as before', since }))

describe('the list of pending changes', () => {
  test.each<[string, Given, Newest, object[]]>([
    ['is empty if nothing has changed', {}, newest, []],
    ['has the template if the pod was created from an older one', {}, other, [onTemplate]],
    ['has the image if the installation configures another one', {}, { ...other, image: 'postgres:18.1' }, [onImage]],
    [
      "has the template if the pod's image is unknown",
      { pod: { image: undefined } },
      { ...other, image: 'postgres:18.1' },
      [onTemplate],
    ],
    [
      'has the template if the installation has no image for that version',
      {},
      { ...other, image: undefined },
      [onTemplate],
    ],
    ['does not have the image if the template is the same', {}, { ...newest, image: 'postgres:18.1' }, []],
    ['does not have the template if the new template is unknown', {}, { ...newest, newestTemplate: undefined }, []],
    ['has changed settings', { configuration: { pendingRestart: ['a', 'b'] } }, newest, [onSettings]],
    ['has the configuration if the pod has copies of the files', { configuration: copied }, newest, [onCopies]],
    [
      "is empty if the pod's copies are current",
      { configuration: { ...copied, inForce: configurationDigest ?? null } },
      newest,
      [],
    ],
    ['is empty if Postgres refused the files', { configuration: { ...copied, refused: 'wrong' } }, newest, []],
    ['is empty if a reload applies the files', { configuration: { inForce: 'older' } }, newest, []],
    [
      'is empty if the desired files are unknown',
      { configuration: copied },
      { ...newest, configurationDigest: undefined },
      [],
    ],
    [
      'has the template, the settings and the configuration together',
      { configuration: { ...copied, pendingRestart: ['a', 'b'] } },
      other,
      [onTemplate, onSettings, onCopies],
    ],
    ['is empty without a pod', { pod: undefined }, other, []],
    ['is empty for a terminating pod', { pod: { terminating: true } }, other, []],
    ['is empty for a database that is to be suspended', { spec: { suspended: true } }, other, []],
  ])('%s', (_, given, wanted, expected) => {
    const found = pendingRestarts(observedOf(given), wanted, now)
    expect(found).toEqual(expected.map(entry => ({ ...entry, since: timestamp(now) })))
  })
  test('keeps the time at which each change was first found', () => {
    const given = {
      status: { pendingRestart: pendingFor('Settings', 'Configuration') },
      configuration: { pendingRestart: ['a', 'b'] },
    }
    expect(pendingRestarts(observedOf(given), other, now)).toEqual([
      { ...onTemplate, since: timestamp(now) },
      { ...onSettings, since },
    ])
  })
  test('has the recorded changes until Postgres answers', () => {
    const status = { pendingRestart: pendingFor('PodTemplate', 'Settings', 'Configuration', 'Image') }
    for (const answer of [undefined, expired()])
      expect(pendingRestarts(observedOf({ status, answer }), newest, now)).toEqual(
        pendingFor('Settings', 'Configuration'),
      )
    expect(pendingRestarts(observedOf({ status }), newest, now)).toEqual([])
  })
  test('has messages within the length limit of a condition', () => {
    const [entry] = pendingRestarts(observedOf({ configuration: { pendingRestart: ['x'.repeat(2000)] } }), newest, now)
    expect(entry?.message).toHaveLength(1000)
  })
  test('is reported with the first reason and all messages', () => {
    expect(restartFinding([])).toBeUndefined()
    expect(restartFinding([onTemplate, onSettings].map(entry => ({ ...entry, since })))).toEqual({
      status: 'True',
      reason: 'PodTemplate',
      message: `pending until the next restart: ${onTemplate.message}; ${onSettings.message}`,
    })
  })
})

describe('a restart', () => {
  test.each<[string, Given, Newest, boolean | undefined]>([
    ['creates a pod if there is none', { pod: undefined }, newest, true],
    ['applies another template', { answer: undefined }, other, true],
    ['applies a setting', { configuration: { pendingRestart: ['a'] } }, newest, true],
    ['applies nothing', {}, newest, false],
    [
      'applies nothing if Postgres reports no pending change, even if the status records one',
      { status: { pendingRestart: pendingFor('Settings') } },
      newest,
      false,
    ],
    [
      'applies nothing if the status records no change and Postgres does not answer',
      { answer: undefined },
      newest,
      false,
    ],
    [
      'may apply recorded settings, if Postgres does not answer',
      { answer: undefined, status: { pendingRestart: pendingFor('Settings') } },
      newest,
      undefined,
    ],
    [
      'does not apply a template that is only recorded',
      { answer: undefined, status: { pendingRestart: pendingFor('PodTemplate') } },
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
