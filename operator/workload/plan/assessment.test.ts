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
if (size === undefined) throw new Error('there is a size')
const largeSize = { ...size, spec: { ...size.spec, name: 'large', shape: { ...size.spec.shape, storageSize: '2Gi' } } }
const growing: Given = { spec: { size: large }, children: { claim: larger }, rest: { size: largeSize } }
/** Its file system grows when a pod mounts it. */
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

  /** By the reported reason, the step with that name if there is none, and the message. */
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
      'its Service to lead to it',
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

  test('is not for the readiness of a pod whose disk is full: Postgres answers reads', () => {
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
      message: 'the volume cannot grow: the cluster refused: quota',
      isPermanent: true,
    })
  })

  /** The StatefulSet has its desired state. */
  const resting = assessmentOf({ spec: { suspended: true }, pod: undefined }).desired.statefulSet
  const blocked = { rest: { suspensionBlock: block } }

  test.each<[string, Given, step: string | undefined, message: string, reason?: string]>([
    ['its StatefulSet', { children: { statefulSet } }, 'Preparing', 'preparing the instance'],
    ['the pod to end', {}, 'Stopping', 'stopping Postgres'],
    ['nothing more once there is none', { pod: undefined }, undefined, ''],
    ['nothing of Postgres, which does not run', { pod: undefined, postgres: undefined }, undefined, ''],
    [
      'its endpoint',
      { pod: undefined, children: { route: other(route) } },
      'OpeningEndpoint',
      'the rules are being applied',
    ],
    ['work that needs it running', { ...blocked, children: { statefulSet } }, 'Stopping', block.message, block.reason],
    ['no longer that, once it is stopping', blocked, 'Stopping', 'stopping Postgres'],
    ['its node', { rest: { node: silent } }, 'Stopping', 'node node-1 has not responded since', 'NodeLost'],
    [
      'a node on which it has no pod',
      { pod: undefined, rest: { node: silent } },
      'Starting',
      'node node-1 has not responded since',
      'NodeLost',
    ],
    [
      'its volume to be retained',
      { children: { claim: going, statefulSet } },
      'Stopping',
      'is being deleted',
      'VolumeBeingDeleted',
    ],
    ['nothing of its volume without a pod', { pod: undefined, children: { claim: going } }, undefined, ''],
    [
      'nothing of a size whose volume grows only under a pod',
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

  test('reports a fatal error before all else', () => {
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
  /** Rules that are being applied. */
  const written = { children: { route: other(route) } }
  const acknowledged = (waitingFor: string[]): Given => ({
    route: { acknowledged: false, waitingFor },
    rest: { isAtRest: false },
  })
  const notBefore = { conditions: { Ready: { status: 'False' as const } } }

  test.each<[string, Given]>([
    ['a serving database', {}],
    ['a database that was not served before', notBefore],
    ['clients with a password, if the Secret does not exist', { rest: { credentials: { state: 'absent' } } }],
    ['one that is to be suspended, as long as it runs', { spec: { suspended: true } }],
    ['one whose last probe timed out: the last finding remains', { answer: undefined }],
    ['one whose operator restarted: the last finding remains', { postgres: undefined }],
    [
      'one whose pod is not ready since its disk is full',
      { pod: { ready: false }, postgres: { ready: false }, answer: { hasFreeSpace: false } },
    ],
    ['one whose new rules are being applied', written],
    ['one with new rules that a gateway does not have yet', acknowledged(['gateway-1'])],
    ['one whose platform role does not exist yet', { answer: { platformInOrder: false } }],
  ])('%s: yes', (_, given) => {
    expect(ready(given)).toEqual({ status: 'True', reason: 'Serving', message: 'Postgres answers clients' })
  })

  test.each<[string, Given, reason: string, message?: string]>([
    ['one that is suspended', { spec: { suspended: true }, pod: undefined }, 'Suspended', 'the database is suspended'],
    ['one without a pod', { pod: undefined }, 'NotRunning', 'Postgres does not run'],
    [
      'one whose Service is deleted',
      { children: { service: undefined } },
      'ServiceMissing',
      'its Service is being created',
    ],
    ['one on a node that is silent', { rest: { node: silent } }, 'NodeLost', 'node node-1 has not responded since'],
    ['one that does not run', { pod: { address: undefined } }, 'NotRunning', 'Postgres does not run'],
    ['one that ends', { pod: { terminating: true } }, 'NotRunning', 'Postgres does not run'],
    ['one that fails to start', { pod: { address: undefined, problem } }, 'CrashLoopBackOff', 'it ended'],
    ['one that refuses', { answer: refused }, 'NotAnswering', 'no answer in 5 s'],
    [
      'one with a lost authority',
      { answer: { ...refused, reason: 'tls' } },
      'NotTrusted',
      'no answer in 5 s; Postgres uses a certificate authority whose Secret no longer exists',
    ],
    [
      'one that refuses the operator',
      { answer: { ...refused, reason: 'auth' } },
      'NotTrusted',
      'kubectl delete pod db-5e1d9a523f0e4b43-1-0',
    ],
    ['one whose disk hangs', { answer: { walHangs: true } }, 'WriteHangs', writeHangsMessage],
    [
      'one that has not answered',
      { ...notBefore, postgres: undefined },
      'NotAnswering',
      'Postgres has not answered yet',
    ],
    [
      'one that has not answered in this run',
      { pod: { run: 'another' } },
      'NotAnswering',
      'Postgres has not answered yet',
    ],
    [
      'one whose roles are not in order',
      { answer: { rolesInOrder: false } },
      'RolesPending',
      'the roles are getting their passwords',
    ],
    [
      'one without credentials, of which new ones are requested',
      { rest: { credentials: { state: 'absent' }, rotations: { requested: { app: 'new' }, isGivenUp: false } } },
      'Minting',
      'the credentials are being created',
    ],
    ['one that refuses a login', { answer: { login: 'refused', loginMessage: 'no hba' } }, 'LoginRefused', 'no hba'],
    [
      'one that refuses a login, without a message',
      { answer: { login: 'refused' } },
      'LoginRefused',
      'a login as app was refused',
    ],
    [
      'one that its Service does not lead to',
      { answer: { login: 'unreachable', loginMessage: 'the Service does not route to this Postgres yet: no' } },
      'NotReachable',
      'the Service does not route to this Postgres yet: no',
    ],
    ['one whose pod is not ready', { pod: { ready: false } }, 'PodNotReady', 'the pod is not ready'],
    ['one that is not open yet', { ...notBefore, ...written }, 'RulesPending', 'the rules are being applied'],
    [
      'one that no gateway has opened yet',
      { ...notBefore, ...acknowledged([]) },
      'AcknowledgementPending',
      'waiting for a gateway: none is running',
    ],
    ['one whose port is in use', { route: { refused: true } }, 'PortInUse', 'port 20000 is used'],
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
      'stays open without changes, if a gateway is added',
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
    ['that was closed, once they are', isShut, true],
    ['that is open stays open, whatever Postgres reports', { answer: { rolesInOrder: false } }, true],
    ['that is open stays open without an answer', { answer: undefined }, true],
    ['whose route is empty', { answer: undefined, route: { route: undefined } }, false],
    ['of a database whose data are lost', { children: { claim: undefined } }, false],
  ])('%s has its rules: %#', (_, given, is) => {
    expect(rulesOf(given)).toEqual(is ? ['203.0.113.0/24'] : [])
  })
})

describe('a pod is created again', () => {
  const withAnnotations = (restartAnnotations: { restart?: string; maintenance?: string }) => () => ({
    ...noRestarts({ newestTemplate: undefined, image: undefined, configurationDigest: undefined }),
    restartAnnotations: { restart: undefined, maintenance: undefined, ...restartAnnotations },
  })
  const had = { restart: 'r1', maintenance: 'm1' }

  test.each<[string, { restart?: string; maintenance?: string }, boolean]>([
    ['for no restart', {}, false],
    ['for those that are done', had, false],
    ['for a requested one', { restart: 'r2' }, true],
    ['for one in a window', { maintenance: 'm2' }, true],
    ['for one of two', { ...had, maintenance: 'm2' }, true],
  ])('%s, or not', (_, restartAnnotations, is) => {
    // By then the StatefulSet has the annotations.
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
    ['as recorded, before all else', { answer: { systemIdentifier: 'system-9' } }, onRecord.volume?.systemIdentifier],
    [
      'as Postgres reports initially',
      { status: { volume: undefined }, answer: { systemIdentifier: 'system-9' } },
      'system-9',
    ],
    ['not before it has answered', { status: { volume: undefined }, answer: undefined }, undefined],
    [
      'not if the pod refuses the data',
      { status: { volume: undefined }, pod: { problem: { ...problem, refusal: 'other-database' } } },
      undefined,
    ],
  ])('%s', (_, given, identifier) => {
    expect(identifierOf(given)).toBe(identifier)
  })
})
