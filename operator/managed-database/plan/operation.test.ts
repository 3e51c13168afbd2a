/** Which operation runs, when it has ended and how, as its Task reports it. */
import { describe, expect, test } from 'vitest'
import type { StatefulSet } from '../../../cluster/index.ts'
import {
  annotations,
  desiredHash,
  type ManagedDatabaseStatus,
  type Operation,
  renderOperation,
  type Task,
} from '../../../crds/index.ts'
import { timestamp } from '../../../values/time.ts'
import { sizeAnnotation } from '../../member/pod/stateful-set.ts'
import { conditionOf } from '../../objects/conditions.ts'
import { derivedId } from '../../objects/derived-id.ts'
import { settings } from '../../testing/cluster-state.ts'
import { type Given, reconciledDatabase } from '../../testing/reconciled-database.ts'

const { now, status: onRecord, children, observedOf, assessmentOf, planOf } = reconciledDatabase()
const { claim, statefulSet } = children
const { deadlines } = settings
const { database, size } = observedOf()
const { uid = '' } = database.metadata
const taskId = '018f3c6e-7b1a-7c3d-8e4f-0123456789ab'
const [hash] = [desiredHash(database.spec)]
const rules = { rules: [{ cidr: '192.0.2.0/24' }] }

type OfTask = NonNullable<Task['status']>['phase']
const taskOf = (phase: OfTask, finishedAt?: string): Task => ({
  apiVersion: 'espalier.dev/v1alpha1',
  kind: 'Task',
  metadata: { name: taskId },
  spec: { name: 'update-managed', subject: { kind: 'database', id: taskId, name: 'one' } },
  status: { phase, ...(finishedAt === undefined ? {} : { finishedAt }) },
})
const [running, ended] = [taskOf('running'), taskOf('succeeded', timestamp(now))]

/** The state of operations after a pass. */
function stateOf(given: Given, at = now) {
  const { status } = planOf(given, at)
  const { operation, appliedHash, maintenance, phase } = status
  const { status: progressing, reason, message } = conditionOf(status, 'Progressing') ?? {}
  return { operation, appliedHash, maintenance, phase, progressing, reason, message }
}
const hashOf = (given: Given) => desiredHash(observedOf(given).database.spec)
const operationOf = (changes: Partial<NonNullable<ManagedDatabaseStatus['operation']>> = {}) => ({
  ...{ taskId, name: 'update-managed' as const, hash, startedAt: timestamp(now - 1000) },
  ...{ deadlineAt: timestamp(now + 60_000) },
  ...changes,
})
/** A request that is not yet applied. */
const requested: Given = { spec: { ipAllowlist: rules }, metadata: { generation: 2 } }
const inHand = (given: Given = requested, changes: Parameters<typeof operationOf>[0] = {}): Given => ({
  ...given,
  status: { operation: operationOf({ hash: hashOf(given), ...changes }), ...given.status },
  conditions: { Progressing: { status: 'True', reason: 'Starting', message: 'on its way' }, ...given.conditions },
})
const progress = (status: 'True' | 'False', reason: string, message: string) => ({
  conditions: { Progressing: { status, reason, message } },
})

describe('without an operation', () => {
  test('everything requested is reported as applied', () => {
    expect(stateOf({})).toMatchObject({
      ...{ operation: undefined, appliedHash: hash, progressing: 'False', reason: 'Completed' },
      message: 'everything requested is applied',
    })
  })
  test('a database without a request reports that nothing is to be done', () => {
    const { reason, message } = stateOf({ status: { conditions: [] } })
    expect([reason, message]).toEqual(['Completed', 'nothing to be done'])
  })
  test('a failure that no longer exists is not reported any more', () => {
    expect(stateOf(progress('False', 'DeadlineExceeded', 'not done'))).toMatchObject({
      ...{ reason: 'Completed', message: 'everything requested is applied', operation: undefined },
    })
  })
  test('a failure is reported while it lasts, and waiting alone starts no operation', () => {
    const failed = progress('False', 'DeadlineExceeded', 'not done')
    const down = { ...failed, pod: undefined }
    expect(stateOf(down)).toMatchObject({ operation: undefined, reason: 'DeadlineExceeded', message: 'not done' })
    expect(stateOf({ pod: undefined })).toMatchObject({ reason: 'Completed' })
  })
  test('a blocked pass reports its reason', () => {
    const silent = { name: 'node-1', silentSince: '2026-01-01T00:00:00Z', isOutOfService: false }
    expect(stateOf({ rest: { node: silent } })).toMatchObject({
      ...{ operation: undefined, progressing: 'False', reason: 'NodeLost' },
      message: expect.stringMatching(/^node node-1 has not responded since/),
    })
  })
})

describe('a request starts an operation', () => {
  const begun = (name: string, given: Given) => ({
    ...{ taskId: derivedId(`${uid}/${hashOf(given)}/2`), name, hash: hashOf(given), startedAt: timestamp(now) },
    deadlineAt: timestamp(now + deadlines.modifyingMs),
  })
  const generation = { metadata: { generation: 2 } }

  test.each<[string, Given]>([
    ['update-managed-ip-allowlists', requested],
    ['suspend-managed', { ...generation, spec: { suspended: true } }],
    ['update-managed-size', { ...generation, spec: { size: { name: 'large', version: 1 } } }],
    ['update-managed', { ...generation, spec: { ipAllowlist: rules, suspended: true } }],
  ])('named %s', (name, given) => {
    expect(stateOf(given).operation).toEqual(begun(name, given))
  })

  test('whose request is not recorded as applied before it ends', () => {
    expect(stateOf(requested)).toMatchObject({
      ...{ appliedHash: hash, phase: 'modifying', progressing: 'True', reason: 'OpeningEndpoint' },
    })
  })
  test('of creation, with its deadline, if nothing was applied before', () => {
    const { operation, phase } = stateOf({ ...generation, status: { appliedHash: undefined }, pod: undefined })
    expect([operation?.name, phase]).toEqual(['create-managed', 'creating'])
    expect(operation?.deadlineAt).toBe(timestamp(now + deadlines.creatingMs))
  })

  describe('named by the existing children if an older operator recorded no digests', () => {
    const old: Given = { status: { appliedHash: 'older', appliedDigests: undefined }, metadata: { generation: 2 } }
    const template = (annotation: Record<string, string>) => ({
      ...statefulSet,
      spec: { ...statefulSet.spec, template: { metadata: { annotations: annotation } } } as NonNullable<
        typeof statefulSet.spec
      >,
    })
    const { route } = observedOf()
    const rulesIn = (list: string[]) =>
      ({ ...route, route: { ...route?.route, rules: list } }) as NonNullable<typeof route>
    test.each<[string, Given, string]>([
      ['nothing', {}, 'update-managed'],
      ['a size', { children: { statefulSet: template({ [sizeAnnotation]: 'large-v1' }) } }, 'update-managed-size'],
      [
        'no size if the StatefulSet has no size annotation',
        { children: { statefulSet: template({}) } },
        'update-managed',
      ],
      [
        'a resumption',
        {
          children: {
            statefulSet: {
              ...statefulSet,
              spec: { ...statefulSet.spec, replicas: 0 } as NonNullable<typeof statefulSet.spec>,
            },
          },
        },
        'resume-managed',
      ],
      ['a suspension', { spec: { suspended: true } }, 'suspend-managed'],
      [
        'no suspension without a StatefulSet',
        { spec: { suspended: true }, children: { statefulSet: undefined } },
        'update-managed',
      ],
      ['rules', { route: rulesIn(['192.0.2.0/24']) }, 'update-managed-ip-allowlists'],
      ['no rules without a route', { route: undefined }, 'update-managed'],
      ['rules and a suspension', { spec: { suspended: true }, route: rulesIn([]) }, 'update-managed'],
    ])('%s', (_, given, name) => {
      expect(stateOf({ ...old, ...given }).operation?.name).toBe(name)
    })
  })

  describe('with the Task of the API', () => {
    const annotated = (operation: Partial<Operation>, given: Given = requested): Given => ({
      ...given,
      metadata: {
        ...given.metadata,
        annotations: {
          [annotations.operation]: renderOperation({
            taskId,
            name: 'update-managed-ip-allowlists',
            hash: hashOf(given),
            ...operation,
          }),
        },
      },
    })
    test('if the Task is for this request', () => {
      expect(stateOf(annotated({})).operation).toMatchObject({ taskId, name: 'update-managed-ip-allowlists' })
      expect(stateOf({ ...annotated({}), rest: { annotatedTask: running } }).operation?.taskId).toBe(taskId)
    })
    test.each<[string, Given]>([
      ['is of an earlier request', annotated({ hash: 'older' })],
      ['has ended', { ...annotated({}), rest: { annotatedTask: ended } }],
      ['is of a deletion', annotated({ name: 'delete-managed' })],
    ])('and with a Task of its own if that Task %s', (_, given) => {
      expect(stateOf(given).operation?.taskId).toBe(derivedId(`${uid}/${hashOf(requested)}/2`))
    })
  })
})

describe('a running operation', () => {
  test('continues until everything requested is applied', () => {
    expect(stateOf(inHand())).toMatchObject({
      ...{ operation: operationOf({ hash: hashOf(requested) }), appliedHash: hash, progressing: 'True' },
      ...{ reason: 'OpeningEndpoint', message: 'the rules are being applied' },
    })
  })
  test('is replaced by another one if the request changes', () => {
    const { operation } = stateOf(inHand(requested, { hash: 'older' }))
    expect(operation).toMatchObject({ taskId: derivedId(`${uid}/${hashOf(requested)}/2`), hash: hashOf(requested) })
  })
  test('is replaced by another one if it was a deletion that was withdrawn', () => {
    expect(stateOf(inHand(requested, { name: 'delete-managed' })).operation?.name).toBe('update-managed-ip-allowlists')
  })
  test('ends when the request is applied, and is kept with its outcome for its Task', () => {
    const given = inHand({ ...requested, children: { route: assessmentOf(requested).desired.route } })
    expect(stateOf(given)).toMatchObject({
      ...{ operation: operationOf({ hash: hashOf(requested) }), appliedHash: hashOf(requested), progressing: 'False' },
      ...{ reason: 'Completed', message: 'everything requested is applied' },
    })
  })
  test('fails with a fatal finding', () => {
    expect(stateOf(inHand({ ...requested, children: { claim: undefined } }))).toMatchObject({
      ...{ operation: operationOf({ hash: hashOf(requested) }), appliedHash: hashOf(requested), progressing: 'False' },
      ...{ reason: 'VolumeLost', phase: 'failed' },
    })
  })
  test('fails with a finding that waiting does not resolve', () => {
    const given = inHand({ spec: { size: { name: 'huge', version: 1 } }, rest: { size: undefined } })
    expect(stateOf(given)).toMatchObject({ progressing: 'False', reason: 'SizeNotFound', appliedHash: hashOf(given) })
  })
  test('fails at its deadline and not before, and the request is still tried', () => {
    const deadline = now + 60_000
    expect(stateOf(inHand(), deadline - 1)).toMatchObject({ progressing: 'True', reason: 'OpeningEndpoint' })
    expect(stateOf(inHand(), deadline)).toMatchObject({
      ...{ progressing: 'False', reason: 'DeadlineExceeded', appliedHash: hashOf(requested) },
      message: `not done by ${timestamp(deadline)}; still trying: the rules are being applied`,
    })
  })
})

describe('an operation that has ended', () => {
  const over = inHand({}, {})
  const outcome = { Progressing: { status: 'False' as const, reason: 'DeadlineExceeded', message: 'not done' } }
  const given: Given = { ...over, conditions: outcome }

  test.each<[string, Task | undefined]>([
    ['has not recorded the end', running],
    ['does not exist yet', undefined],
  ])('is kept with its outcome while its Task %s, even if the request changes', (_, task) => {
    const maintenance = { restart: 'w', startedAt: timestamp(now) }
    const retained = {
      operation: operationOf(),
      appliedHash: hash,
      progressing: 'False',
      ...{ reason: 'DeadlineExceeded', message: 'not done' },
    }
    expect(stateOf({ ...given, rest: { task } })).toMatchObject(retained)
    expect(stateOf({ ...given, ...requested, status: { ...given.status, maintenance }, rest: { task } })).toMatchObject(
      {
        ...retained,
        maintenance,
      },
    )
  })
  test('is removed when its Task has ended, and a new request starts another one', () => {
    expect(stateOf({ ...given, rest: { task: ended } })).toMatchObject({ operation: undefined, reason: 'Completed' })
    expect(stateOf({ ...given, ...requested, rest: { task: ended } }).operation).toMatchObject({
      ...{ name: 'update-managed-ip-allowlists', startedAt: timestamp(now) },
    })
  })
})

describe('a size that is applied after its own operation has failed', () => {
  const large = size && {
    ...size,
    spec: { ...size.spec, name: 'large', shape: { ...size.spec.shape, storageSize: '2Gi' } },
  }
  const grown = {
    ...claim,
    spec: { ...claim.spec, resources: { requests: { storage: '2Gi' } } },
    status: { phase: 'Bound', capacity: { storage: '2Gi' } },
  }
  const spec = { size: { name: 'large', version: 1 } }
  const rest: Given = {
    spec,
    status: { appliedHash: hashOf({ spec }), appliedDigests: undefined },
    children: { claim: grown },
    rest: { size: large },
  }

  test('is an operation of its own, since Postgres is restarted for it', () => {
    expect(stateOf(rest)).toMatchObject({
      operation: {
        ...{ taskId: derivedId(`${uid}/${hashOf(rest)}/1/grown`), name: 'update-managed-size', hash: hashOf(rest) },
        ...{ startedAt: timestamp(now), deadlineAt: timestamp(now + deadlines.modifyingMs) },
      },
      ...{ progressing: 'True', reason: 'Starting', message: 'the volume has grown: Postgres is restarted' },
      appliedHash: hashOf(rest),
    })
  })
  test('continues as that operation', () => {
    const begun = { ...rest, ...inHand(rest, { name: 'update-managed-size' }) }
    expect(stateOf({ ...begun, status: { ...rest.status, ...begun.status } }).operation?.taskId).toBe(taskId)
  })
})

describe('a restart', () => {
  const window = { restart: 'w', startedAt: timestamp(now - 1000) }
  const older = { pod: { template: 'older' } }
  const inWindow = (given: Given = older, maintenance: object = window): Given => ({
    ...given,
    status: { maintenance: maintenance as NonNullable<ManagedDatabaseStatus['maintenance']>, ...given.status },
  })
  /** The StatefulSet that a pass writes. */
  const written = (given: Given): StatefulSet | undefined =>
    planOf(given).actions.flatMap(action =>
      action.do === 'apply' && action.kind === 'StatefulSet' ? [action.draft] : [],
    )[0]
  const late = now - 1000 + deadlines.modifyingMs

  test('in a maintenance window is an operation if it changes something', () => {
    const { operation, phase, progressing, message } = stateOf(inWindow())
    expect(operation).toEqual({
      ...{ taskId: derivedId(`${uid}/maintenance/w`), name: 'restart-managed', hash },
      ...{ startedAt: timestamp(now), deadlineAt: timestamp(now + deadlines.modifyingMs) },
    })
    expect([phase, progressing]).toEqual(['modifying', 'True'])
    expect(message).toMatch(/, in the region's maintenance window$/)
  })
  test('in a maintenance window is no operation if it changes nothing, and counts as succeeded', () => {
    expect(stateOf(inWindow({}))).toMatchObject({
      ...{ operation: undefined, maintenance: { ...window, endedAt: timestamp(now), outcome: 'completed' } },
    })
  })
  test('in a maintenance window is no operation while it is unknown whether it changes something', () => {
    const pendingRestart = [{ reason: 'Settings', message: 'a', since: timestamp(now) }]
    const unsure = inWindow({ answer: undefined, status: { pendingRestart, maintenance: window } })
    expect(stateOf(unsure).operation).toBeUndefined()
    expect(planOf(unsure).awaitsPostgres).toBe(true)
  })
  test('in a maintenance window fails at its deadline, and succeeds if it is done later', () => {
    const failed = { ...window, endedAt: timestamp(late), outcome: 'failed' as const }
    expect(stateOf(inWindow({ pod: undefined }), late - 1).maintenance).toEqual(window)
    expect(stateOf(inWindow({ pod: undefined }), late).maintenance).toEqual(failed)
    expect(stateOf(inWindow({ pod: undefined }, failed), late + 5000).maintenance).toEqual(failed)
    expect(stateOf(inWindow({}, failed), late + 5000).maintenance).toEqual({ ...failed, outcome: 'completed' })
  })
  test('in a maintenance window fails at once with a fatal finding', () => {
    expect(stateOf(inWindow({ children: { claim: undefined } })).maintenance).toEqual({
      ...window,
      endedAt: timestamp(now),
      outcome: 'failed',
    })
  })
  test('in a maintenance window ends if the database is suspended meanwhile', () => {
    const suspended: Given = {
      spec: { suspended: true },
      pod: undefined,
      status: { phase: 'suspended', appliedHash: hashOf({ spec: { suspended: true } }) },
    }
    const resting = { ...suspended, children: { statefulSet: written(inWindow(suspended)) } }
    expect(stateOf(inWindow(resting)).maintenance).toMatchObject({ outcome: 'completed' })
    expect(stateOf(inWindow({ ...resting, status: { ...resting.status, phase: 'suspending' } })).maintenance).toEqual(
      window,
    )
  })
  test('in a maintenance window that has succeeded is not changed', () => {
    const done = { ...window, endedAt: timestamp(now), outcome: 'completed' as const }
    expect(stateOf(inWindow({ pod: undefined }, done), late).maintenance).toEqual(done)
    expect(stateOf({}).maintenance).toBeUndefined()
  })
  test('ends even if a size waits for its volume', () => {
    const growing = size && { ...size, spec: { ...size.spec, shape: { ...size.spec.shape, storageSize: '2Gi' } } }
    const given: Given = {
      status: { maintenance: window },
      children: { claim: { ...claim, spec: { ...claim.spec, resources: { requests: { storage: '2Gi' } } } } },
    }
    const spec = { size: { name: 'large', version: 1 } }
    const status = { ...given.status, appliedHash: hashOf({ spec }), appliedDigests: undefined }
    expect(stateOf({ ...given, spec, status, rest: { size: growing } }).maintenance?.outcome).toBe('completed')
  })

  describe('on request', () => {
    const withRestart = (given: Given = {}): Given => ({
      ...given,
      metadata: { generation: 2, annotations: { [annotations.restart]: 'now' }, ...given.metadata },
    })
    const requestedHash = desiredHash({ ...database.spec, restart: 'now' })

    test('is an operation that does not mention a maintenance window', () => {
      const { operation, message, progressing } = stateOf(withRestart())
      expect([operation?.name, operation?.hash, progressing]).toEqual(['restart-managed', requestedHash, 'True'])
      expect(message).not.toMatch(/window/)
    })
    test('fails at its deadline and is not done afterwards', () => {
      const next = written(withRestart())
      const operation = operationOf({ name: 'restart-managed', hash: requestedHash })
      const given = withRestart({
        status: { operation },
        children: { statefulSet: next },
        conditions: { Progressing: { status: 'True' } },
      })
      const deadline = now + 60_000
      expect(planOf(given, deadline - 1).actions).toContainEqual(expect.objectContaining({ do: 'delete', kind: 'Pod' }))
      expect(planOf(given, deadline).actions.filter(action => action.do === 'delete')).toEqual([])
      expect(stateOf(given, deadline)).toMatchObject({
        ...{ operation, appliedHash: requestedHash, progressing: 'False', reason: 'DeadlineExceeded' },
        message: `Postgres was not restarted by ${timestamp(deadline)}. The request has expired: request the restart again`,
      })
    })
    test('that is withdrawn counts as applied', () => {
      const applied = {
        appliedHash: requestedHash,
        appliedDigests: { hash: requestedHash, members: { ...onRecord.appliedDigests?.members, restart: 'x' } },
      }
      expect(stateOf({ status: applied })).toMatchObject({ operation: undefined, appliedHash: hash })
    })
  })
})
