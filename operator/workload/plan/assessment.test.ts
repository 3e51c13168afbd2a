/** What a database waits for, and whether it serves: tables of serving databases with one difference. */
import { describe, expect, test } from 'vitest'
import { readRoute } from '../../../routes/route.ts'
import { noRestarts } from '../../member/pod/plan/restart-annotations.ts'
import { writeHangsMessage } from '../../member/postgres/plan/health.ts'
import { systemIdentifierAnnotation } from '../../member/storage/claim.ts'
import { type Given, reconciledDatabase } from '../../testing/reconciled-database.ts'

const { children, status: onRecord, observedOf, assessmentOf } = reconciledDatabase()
const { claim, statefulSet, service, route } = children
const at = '2026-01-01T00:00:00Z'
const going = { ...claim, metadata: { ...claim.metadata, deletionTimestamp: at } }
const unbound = { ...claim, status: { phase: 'Pending' } }
const other = <T extends { metadata: object }>(object: T): T => ({
  ...object,
  metadata: { ...object.metadata, annotations: {} },
})
const problem = { reason: 'CrashLoopBackOff', message: 'it ended', refusal: undefined, diskFull: false }
const silent = { name: 'node-1', silentSince: at, isOutOfService: false }
const block = { reason: 'AwaitsBackup', message: 'the backup nightly is being taken' }
const refused = { state: 'refused' as const, reason: 'timeout', message: 'no answer in 5 s' }
const large = { name: 'large', version: 1 }
const larger = { ...claim, spec: { ...claim.spec, resources: { requests: { storage: '2Gi' } } } }
const { size } = observedOf().appliedSize
if (size === undefined) throw new Error('the size is missing')
const largeSize = { ...size, spec: { ...size.spec, name: 'large', shape: { ...size.spec.shape, storageSize: '2Gi' } } }
const growing: Given = { spec: { size: large }, children: { claim: larger }, rest: { size: largeSize } }
/** The file system grows when a pod mounts it. */
const lagging = {
  ...larger,
  status: {
    phase: 'Bound',
    capacity: { storage: '2Gi' },
    conditions: [{ type: 'FileSystemResizePending', status: 'True' as const }],
  },
}
const unminted: Given = { status: { volume: undefined }, rest: { credentials: { state: 'absent' } } }
const never: Given['status'] = { volume: undefined, appliedHash: undefined, size: undefined }

describe('the wait', () => {
  test('is for nothing if the complete request is applied', () => {
    expect(assessmentOf()).toMatchObject({ pending: undefined, fatal: undefined, serves: true })
  })

  /** By the reason: the step if it has another name, and the message. */
  test.each<[string, Given, step: string, message: RegExp, reason?: string]>([
    [
      'the region',
      { rest: { region: undefined } },
      'Preparing',
      /^spec\.region: there is no region here; /,
      'RegionNotFound',
    ],
    [
      'the size',
      { rest: { size: undefined } },
      'Preparing',
      /^spec\.size: there is no size small-v1; /,
      'SizeNotFound',
    ],
    [
      'an image of its version',
      { rest: { image: undefined }, children: { statefulSet: undefined } },
      'Preparing',
      /has no image of Postgres 18$/,
      'VersionNotOffered',
    ],
    ['its credentials', unminted, 'Preparing', /^creating credentials$/],
    ['its certificate', { rest: { certificate: { state: 'absent' } } }, 'Preparing', /^creating credentials$/],
    ['a claim', { status: never, children: { claim: undefined } }, 'Preparing', /^creating the volume claim$/],
    ['its configuration', { children: { configuration: undefined } }, 'Preparing', /^writing the configuration$/],
    ['its Service', { children: { service: undefined } }, 'Preparing', /^writing the configuration$/],
    ['its changed Service', { children: { service: other(service) } }, 'Preparing', /^writing the confi/],
    ['its StatefulSet', { children: { statefulSet: undefined } }, 'Preparing', /^preparing the instance$/],
    [
      'its changed StatefulSet',
      { children: { statefulSet: other(statefulSet) } },
      'Preparing',
      /^preparing the instance$/,
    ],
    [
      'its StatefulSet, before the pod',
      { pod: undefined, children: { statefulSet: undefined } },
      'Preparing',
      /^preparing the instance$/,
    ],
    ['its silent node', { rest: { node: silent } }, 'Starting', /^node node-1 has not responded since/, 'NodeLost'],
    [
      'a volume that is being created',
      {
        status: never,
        pod: { address: undefined },
        children: { claim: unbound },
        rest: { provisioning: 'no such class' },
      },
      'Starting',
      /^the volume does not exist yet: no such class/,
    ],
    ['a pod', { pod: undefined }, 'Starting', /^waiting for the pod$/],
    ['a pod that replaces a terminating one', { pod: { terminating: true } }, 'Starting', /^restarting Postgres$/],
    ['a pod of another size', { pod: { size: 'large-v1' } }, 'Starting', /^restarting Postgres$/],
    ['a pod on another volume', { pod: { volume: 'another' } }, 'Starting', /^restarting Postgres$/],
    ['Postgres to start', { pod: { address: undefined } }, 'Starting', /^starting the instance$/],
    ['Postgres to start, and why it does not', { pod: { address: undefined, problem } }, 'Starting', /^it ended$/],
    ['an answer', { postgres: undefined }, 'Connecting', /^waiting for Postgres to answer$/],
    ['an answer in time', { answer: undefined }, 'Connecting', /^waiting for Postgres to answer$/],
    ['another answer', { answer: refused }, 'Connecting', /^no answer in 5 s$/],
    ['an answer of this run', { pod: { run: 'another' } }, 'Connecting', /^waiting for Postgres to answer$/],
    ['its roles', { answer: { rolesInOrder: false } }, 'PreparingRoles', /^the roles are getting their passwords$/],
    ['a login', { answer: { login: 'refused', loginMessage: 'no hba' } }, 'PreparingRoles', /^no hba$/],
    ['a login, without a reason', { answer: { login: 'refused' } }, 'PreparingRoles', /^a login as app was refused$/],
    [
      'its Service to route to it',
      { answer: { login: 'unreachable', loginMessage: 'the Service does not route to this Postgres yet: no' } },
      'Connecting',
      /^the Service does not route to this Postgres yet: no$/,
    ],
    ['its volume to be recorded', { status: { volume: undefined } }, 'PreparingRoles', /^recording the volume$/],
    ['its pod to be ready', { pod: { ready: false } }, 'Connecting', /^waiting for the pod to be ready$/],
    ['its port', { route: undefined, children: { route: undefined } }, 'OpeningEndpoint', /^a port is being reserved$/],
    ['a port', { route: { refused: true } }, 'OpeningEndpoint', /^port 20000 is used/],
    ['its rules', { children: { route: other(route) } }, 'OpeningEndpoint', /^the rules are being applied$/],
    ['the volume', growing, 'Growing', /^the volume is growing from 1Gi to 2Gi$/],
  ])('is %s', (_, given, step, message, reason = step) => {
    expect(assessmentOf(given).pending).toEqual({ step, reason, message: expect.stringMatching(message) })
  })

  test('is not for an image of its version if the database has one', () => {
    expect(assessmentOf({ rest: { image: undefined } }).pending).toBeUndefined()
  })

  test('is not for the readiness of a pod whose disk is full: Postgres still answers reads', () => {
    const ready = { pod: { ready: false }, postgres: { ready: false } }
    expect(assessmentOf({ ...ready, answer: { hasFreeSpace: false } }).pending).toBeUndefined()
    expect(assessmentOf(ready).pending?.step).toBe('Connecting')
  })

  test('is not for a login as a role whose password a user has changed', () => {
    const changed = assessmentOf({ answer: { login: 'untried', changedByUser: ['app'] } })
    expect([changed.pending, changed.serves]).toEqual([undefined, true])
  })

  test('is reported as permanent if waiting does not resolve it', () => {
    const refusal = { claim: claim.metadata.uid ?? '', storage: '2Gi', message: 'quota', retryAt: 0, isDue: false }
    const given = { ...growing, rest: { ...growing.rest, growthRefusal: refusal } }
    expect(assessmentOf(given).pending).toEqual({
      step: 'Growing',
      reason: 'GrowthRefused',
      message: 'the cluster refused to grow the volume: quota',
      isPermanent: true,
    })
  })

  /** A StatefulSet with its desired state, scaled to zero. */
  const resting = assessmentOf({ spec: { suspended: true }, pod: undefined }).desired.statefulSet
  const blocked = { rest: { suspensionBlock: block } }

  test.each<[string, Given, step: string | undefined, message: string, reason?: string]>([
    ['its StatefulSet', { children: { statefulSet } }, 'Preparing', 'preparing the instance'],
    ['the pod to end', {}, 'Stopping', 'stopping Postgres'],
    ['nothing if there is no pod', { pod: undefined }, undefined, ''],
    ['no answer of Postgres, which does not run', { pod: undefined, postgres: undefined }, undefined, ''],
    [
      'its endpoint',
      { pod: undefined, children: { route: other(route) } },
      'OpeningEndpoint',
      'the rules are being applied',
    ],
    ['work that needs Postgres', { ...blocked, children: { statefulSet } }, 'Stopping', block.message, block.reason],
    ['no work, if the stop has begun', blocked, 'Stopping', 'stopping Postgres'],
    ['its node', { rest: { node: silent } }, 'Stopping', 'node node-1 has not responded since', 'NodeLost'],
    [
      'a node on which it has no pod',
      { pod: undefined, rest: { node: silent } },
      'Starting',
      'node node-1 has not responded since',
      'NodeLost',
    ],
    [
      'the retention of its volume',
      { children: { claim: going, statefulSet } },
      'Stopping',
      'is being deleted',
      'VolumeBeingDeleted',
    ],
    ['not its volume, without a pod', { pod: undefined, children: { claim: going } }, undefined, ''],
    [
      'not a size whose volume grows only with a pod',
      { ...growing, pod: undefined, children: { claim: lagging } },
      undefined,
      '',
    ],
  ])('of a database that is to be suspended is for %s', (_, given, step, message, reason = step) => {
    const children = { statefulSet: resting, ...given.children }
    const { pending } = assessmentOf({ ...given, spec: { suspended: true, ...given.spec }, children })
    if (step === undefined) expect(pending).toBeUndefined()
    else expect(pending).toMatchObject({ step, reason, message: expect.stringContaining(message) })
  })

  test('reports a fatal error before anything else', () => {
    const { fatal, pending, findings, serves } = assessmentOf({
      rest: { region: undefined },
      children: { claim: undefined },
    })
    expect(fatal).toMatchObject({ status: 'False', reason: 'VolumeLost' })
    expect(pending).toEqual({ step: 'Preparing', reason: fatal?.reason, message: fatal?.message })
    expect([findings.VolumeReady, findings.Ready, serves]).toEqual([fatal, fatal, false])
  })
})

describe('whether clients are served', () => {
  const ready = (given: Given) => assessmentOf(given).findings.Ready
  /** New rules that are not applied yet. */
  const written = { children: { route: other(route) } }
  const acknowledged = (waitingFor: string[]): Given => ({
    route: { acknowledged: false, waitingFor },
    rest: { isAtRest: false },
  })
  const notBefore = { conditions: { Ready: { status: 'False' as const } } }

  test.each<[string, Given]>([
    ['a serving database', {}],
    ['a database that was not served before', notBefore],
    ['a database without its Secret, for clients that have a password', { rest: { credentials: { state: 'absent' } } }],
    ['a database that is to be suspended, while it runs', { spec: { suspended: true } }],
    ['a database whose last probe timed out: the last finding remains', { answer: undefined }],
    ['a database after a restart of the operator: the last finding remains', { postgres: undefined }],
    [
      'a database whose pod is not ready because its disk is full',
      { pod: { ready: false }, postgres: { ready: false }, answer: { hasFreeSpace: false } },
    ],
    ['a database whose new rules are being applied', written],
    ['a database with new rules that a gateway does not have yet', acknowledged(['gateway-1'])],
    ['a database whose platform role does not exist yet', { answer: { platformInOrder: false } }],
  ])('%s: yes', (_, given) => {
    expect(ready(given)).toEqual({ status: 'True', reason: 'Serving', message: 'Postgres answers clients' })
  })

  test.each<[string, Given, reason: string, message?: string]>([
    ['a suspended database', { spec: { suspended: true }, pod: undefined }, 'Suspended', 'the database is suspended'],
    ['a database without a pod', { pod: undefined }, 'NotRunning', 'Postgres does not run'],
    [
      'a database whose Service is deleted',
      { children: { service: undefined } },
      'ServiceMissing',
      'the Service is being created',
    ],
    [
      'a database on a node that does not respond',
      { rest: { node: silent } },
      'NodeLost',
      'node node-1 has not responded since',
    ],
    ['a database whose Postgres does not run', { pod: { address: undefined } }, 'NotRunning', 'Postgres does not run'],
    ['a database whose pod terminates', { pod: { terminating: true } }, 'NotRunning', 'Postgres does not run'],
    [
      'a database whose Postgres fails to start',
      { pod: { address: undefined, problem } },
      'CrashLoopBackOff',
      'it ended',
    ],
    ['a database that refuses connections', { answer: refused }, 'NotAnswering', 'no answer in 5 s'],
    [
      'a database with a lost certificate authority',
      { answer: { ...refused, reason: 'tls' } },
      'NotTrusted',
      'no answer in 5 s; Postgres uses a certificate authority whose Secret no longer exists',
    ],
    [
      'a database that refuses the operator',
      { answer: { ...refused, reason: 'auth' } },
      'NotTrusted',
      'kubectl delete pod db-5e1d9a523f0e4b43-1-0',
    ],
    ['a database whose disk hangs', { answer: { walHangs: true } }, 'WriteHangs', writeHangsMessage],
    [
      'a database that has not answered',
      { ...notBefore, postgres: undefined },
      'NotAnswering',
      'Postgres has not answered yet',
    ],
    [
      'a database that has not answered in this run',
      { pod: { run: 'another' } },
      'NotAnswering',
      'Postgres has not answered yet',
    ],
    [
      'a database whose roles are not in order',
      { answer: { rolesInOrder: false } },
      'RolesPending',
      'the roles are getting their passwords',
    ],
    [
      'a database without credentials, if new ones are requested',
      { rest: { credentials: { state: 'absent' }, rotations: { requested: { app: 'new' }, isGivenUp: false } } },
      'Minting',
      'the credentials are being created',
    ],
    [
      'a database that refuses a login',
      { answer: { login: 'refused', loginMessage: 'no hba' } },
      'LoginRefused',
      'no hba',
    ],
    [
      'a database that refuses a login, without a message',
      { answer: { login: 'refused' } },
      'LoginRefused',
      'a login as app was refused',
    ],
    [
      'a database that its Service does not route to',
      { answer: { login: 'unreachable', loginMessage: 'the Service does not route to this Postgres yet: no' } },
      'NotReachable',
      'the Service does not route to this Postgres yet: no',
    ],
    ['a database whose pod is not ready', { pod: { ready: false } }, 'PodNotReady', 'the pod is not ready'],
    [
      'a database whose endpoint is not open yet',
      { ...notBefore, ...written },
      'RulesPending',
      'the rules are being applied',
    ],
    [
      'a database whose endpoint no gateway has opened yet',
      { ...notBefore, ...acknowledged([]) },
      'AcknowledgementPending',
      'waiting for a gateway: none is running',
    ],
    ['a database whose port is in use', { route: { refused: true } }, 'PortInUse', 'port 20000 is used'],
  ])('%s: no', (_, given, reason, message = '') => {
    expect(ready(given)).toMatchObject({ status: 'False', reason, message: expect.stringContaining(message) })
    expect(assessmentOf(given).serves).toBe(false)
  })
})

describe('the endpoint', () => {
  const endpoint = (given: Given) => assessmentOf(given).findings.EndpointReady
  const unacknowledged = (waitingFor: string[]) => ({ acknowledged: false, waitingFor })
  const rulesOf = (given: Given) => assessmentOf(given).desired.rules

  test.each<[string, Given, string, string, string]>([
    ['is open', {}, 'True', 'InForce', 'the rules are applied'],
    [
      'is closed as requested',
      {
        spec: { ipAllowlist: { rules: [] } },
        children: { route: assessmentOf({ spec: { ipAllowlist: { rules: [] } } }).desired.route },
      },
      'True',
      'InForce',
      'no rules: the endpoint is closed',
    ],
    [
      'waits for gateways',
      { route: unacknowledged(['a', 'b']), rest: { isAtRest: false } },
      'False',
      'AcknowledgementPending',
      'waiting for a, b',
    ],
    [
      'waits for a gateway to start',
      { route: unacknowledged([]), rest: { isAtRest: false } },
      'False',
      'AcknowledgementPending',
      'waiting for a gateway: none is running',
    ],
    [
      'is not open before a gateway has acknowledged it',
      { route: unacknowledged(['a']), conditions: { EndpointReady: { status: 'False' } } },
      'False',
      'AcknowledgementPending',
      'waiting for a',
    ],
    [
      'stays open if a gateway is added and no rule changes',
      { route: unacknowledged(['a']) },
      'True',
      'InForce',
      'the rules are applied',
    ],
    ['has no port yet', { route: undefined }, 'False', 'PortPending', 'a port is being reserved'],
    [
      'has no port without a region',
      { route: undefined, rest: { region: undefined } },
      'False',
      'RegionNotFound',
      'there is no region here',
    ],
  ])('%s', (_, given, status, reason, message) => {
    expect(endpoint(given)).toEqual({ status, reason, message })
  })

  const shut = readRoute({ ...route }).route
  const isShut = { route: { route: shut && { ...shut, rules: [] } } }
  test.each<[string, Given, boolean]>([
    ['of a database that serves', {}, true],
    ['whose volume is not recorded', { status: { volume: undefined } }, false],
    ['that was closed, before its roles are in order', { ...isShut, answer: { rolesInOrder: false } }, false],
    ['that was closed, before logins succeed', { ...isShut, answer: { login: 'refused' } }, false],
    ['that was closed, before Postgres has answered', { ...isShut, answer: undefined }, false],
    ['that was closed, if roles and logins are in order', isShut, true],
    ['that is open stays open, whatever Postgres reports', { answer: { rolesInOrder: false } }, true],
    ['that is open stays open without an answer', { answer: undefined }, true],
    ['whose route is empty', { answer: undefined, route: { route: undefined } }, false],
    ['of a database whose data are lost', { children: { claim: undefined } }, false],
  ])('%s has its rules: %#', (_, given, is) => {
    expect(rulesOf(given)).toEqual(is ? ['203.0.113.0/24'] : [])
  })
})

describe('the operator restarts a pod', () => {
  const withAnnotations = (restartAnnotations: { restart?: string; maintenance?: string }) => () => ({
    ...noRestarts({ newestTemplate: undefined, image: undefined, configurationDigest: undefined }),
    restartAnnotations: { restart: undefined, maintenance: undefined, ...restartAnnotations },
  })
  const had = { restart: 'r1', maintenance: 'm1' }

  test.each<[string, { restart?: string; maintenance?: string }, boolean]>([
    ['without a requested restart', {}, false],
    ['for restarts that are done', had, false],
    ['for a requested restart', { restart: 'r2' }, true],
    ['for a restart in a window', { maintenance: 'm2' }, true],
    ['if one of two restarts is not done', { ...had, maintenance: 'm2' }, true],
  ])('%s, or not', (_, restartAnnotations, is) => {
    // The StatefulSet already has the annotations.
    const restarts = withAnnotations(restartAnnotations)
    const { statefulSet } = assessmentOf({ pod: { restartAnnotations: had } }, restarts).desired
    const { pending } = assessmentOf({ pod: { restartAnnotations: had }, children: { statefulSet } }, restarts)
    expect(pending?.message).toBe(is ? 'restarting Postgres' : undefined)
  })
})

test("the installation's keys are reported if they exist", () => {
  expect(assessmentOf().findings.KeysAvailable).toMatchObject({ status: 'True', reason: 'Present' })
})

describe('a claim is annotated with the system identifier of its data', () => {
  const identifierOf = (given: Given) =>
    assessmentOf(given).desired.claim?.metadata.annotations?.[systemIdentifierAnnotation]
  test.each<[string, Given, string | undefined]>([
    [
      'as recorded, whatever Postgres reports',
      { answer: { systemIdentifier: 'system-9' } },
      onRecord.volume?.systemIdentifier,
    ],
    [
      'as Postgres reports, if none is recorded',
      { status: { volume: undefined }, answer: { systemIdentifier: 'system-9' } },
      'system-9',
    ],
    ['not before Postgres has answered', { status: { volume: undefined }, answer: undefined }, undefined],
    [
      'not if the pod refuses the data',
      { status: { volume: undefined }, pod: { problem: { ...problem, refusal: 'other-database' } } },
      undefined,
    ],
  ])('%s', (_, given, identifier) => {
    expect(identifierOf(given)).toBe(identifier)
  })
})
