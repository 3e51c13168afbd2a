/** What a database is waiting for, and whether it serves: table by table, for one that serves but for one thing. */
import { describe, expect, test } from 'vitest'
import { readRoute } from '../../../routes/route.ts'
import { noRestarts } from '../../member/pod/plan/restart-marks.ts'
import { writeHangsMessage } from '../../member/postgres/plan/health.ts'
import { systemIdentifierAnnotation } from '../../member/storage/claim.ts'
import { type Given, settledDatabase } from '../../testing/settled.ts'

const { children, status: onRecord, observedOf, assessmentOf } = settledDatabase()
const { claim, statefulSet, service, route } = children
const at = '2026-01-01T00:00:00Z'
const going = { ...claim, metadata: { ...claim.metadata, deletionTimestamp: at } }
const unbound = { ...claim, status: { phase: 'Pending' } }
const other = <T extends { metadata: object }>(object: T): T => ({
  ...object,
  metadata: { ...object.metadata, annotations: {} },
})
const trouble = { reason: 'CrashLoopBackOff', message: 'it ended', refusal: undefined, diskFull: false }
const silent = { name: 'node-1', silentSince: at, isOutOfService: false }
const hold = { reason: 'AwaitsBackup', message: 'the backup nightly is being taken' }
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

describe('what is waited for', () => {
  test('is nothing where all that was asked is in force', () => {
    expect(assessmentOf()).toMatchObject({ pending: undefined, fatal: undefined, serves: true })
  })

  /** By the reason that is told, the step with that name without one, and the message. */
  test.each<[string, Given, step: string, message: RegExp, reason?: string]>([
    [
      'the region',
      { rest: { region: undefined } },
      'Preparing',
      /^spec\.region: there is no region here: /,
      'RegionNotFound',
    ],
    [
      'the size',
      { rest: { size: undefined } },
      'Preparing',
      /^spec\.size: there is no size small-v1: /,
      'SizeNotFound',
    ],
    [
      'an image of its version',
      { rest: { image: undefined }, children: { statefulSet: undefined } },
      'Preparing',
      /has no image of Postgres 18$/,
      'VersionNotOffered',
    ],
    ['its credentials', unminted, 'Preparing', /^minting credentials$/],
    ['its certificate', { rest: { certificate: { state: 'absent' } } }, 'Preparing', /^minting credentials$/],
    ['a claim', { status: never, children: { claim: undefined } }, 'Preparing', /^claiming the volume$/],
    ['its configuration', { children: { configuration: undefined } }, 'Preparing', /^writing the configuration$/],
    ['its Service', { children: { service: undefined } }, 'Preparing', /^writing the configuration$/],
    ['its Service, as it is to be', { children: { service: other(service) } }, 'Preparing', /^writing the confi/],
    ['its StatefulSet', { children: { statefulSet: undefined } }, 'Preparing', /^preparing the instance$/],
    [
      'its StatefulSet, as it is to be',
      { children: { statefulSet: other(statefulSet) } },
      'Preparing',
      /^preparing the instance$/,
    ],
    [
      'its StatefulSet, and not the pod before',
      { pod: undefined, children: { statefulSet: undefined } },
      'Preparing',
      /^preparing the instance$/,
    ],
    [
      'the node it was on',
      { rest: { node: silent } },
      'Starting',
      /^nothing has been heard of node node-1/,
      'NodeLost',
    ],
    [
      'a volume that is being made',
      {
        status: never,
        pod: { address: undefined },
        children: { claim: unbound },
        rest: { provisioning: 'no such class' },
      },
      'Starting',
      /^the volume is not there yet: no such class/,
    ],
    ['a pod', { pod: undefined }, 'Starting', /^waiting for the pod$/],
    ['a pod in place of one that ends', { pod: { terminating: true } }, 'Starting', /^restarting Postgres$/],
    ['a pod of another size', { pod: { size: 'large-v1' } }, 'Starting', /^restarting Postgres$/],
    ['a pod on another volume', { pod: { volume: 'another' } }, 'Starting', /^restarting Postgres$/],
    ['Postgres to start', { pod: { address: undefined } }, 'Starting', /^starting the instance$/],
    ['Postgres to start, and why it does not', { pod: { address: undefined, trouble } }, 'Starting', /^it ended$/],
    ['an answer', { postgres: undefined }, 'Connecting', /^waiting for Postgres to answer$/],
    ['an answer in time', { answer: undefined }, 'Connecting', /^waiting for Postgres to answer$/],
    ['another answer', { answer: refused }, 'Connecting', /^no answer in 5 s$/],
    ['an answer of this run', { pod: { run: 'another' } }, 'Connecting', /^waiting for Postgres to answer$/],
    ['its roles', { answer: { rolesInOrder: false } }, 'PreparingRoles', /^the roles get their passwords$/],
    ['a login', { answer: { login: 'refused', loginMessage: 'no hba' } }, 'PreparingRoles', /^no hba$/],
    [
      'a login, and nobody says why',
      { answer: { login: 'refused' } },
      'PreparingRoles',
      /^a login as app was refused$/,
    ],
    [
      'its Service to lead to it',
      { answer: { login: 'unreachable', loginMessage: 'its Service does not lead to it yet: no' } },
      'Connecting',
      /^its Service does not lead to it yet: no$/,
    ],
    ['its volume on record', { status: { volume: undefined } }, 'PreparingRoles', /^recording the volume$/],
    ['its pod to be ready', { pod: { ready: false } }, 'Connecting', /^waiting for the pod to be ready$/],
    ['its port', { route: undefined, children: { route: undefined } }, 'OpeningEndpoint', /^a port is being claimed$/],
    ['a port', { route: { refused: true } }, 'OpeningEndpoint', /^port 20000 is in use/],
    ['its rules', { children: { route: other(route) } }, 'OpeningEndpoint', /^the rules are being written$/],
    ['the volume', growing, 'Growing', /^the volume grows from 1Gi to 2Gi$/],
  ])('is %s', (_, given, step, message, reason = step) => {
    expect(assessmentOf(given).pending).toEqual({ step, reason, message: expect.stringMatching(message) })
  })

  test('is no image of its version where it has one', () => {
    expect(assessmentOf({ rest: { image: undefined } }).pending).toBeUndefined()
  })

  test('is no readiness of a pod whose disk is full: it answers what it can', () => {
    const ready = { pod: { ready: false }, postgres: { ready: false } }
    expect(assessmentOf({ ...ready, answer: { hasRoom: false } }).pending).toBeUndefined()
    expect(assessmentOf(ready).pending?.step).toBe('Connecting')
  })

  test('is no login as somebody whose password a user has changed', () => {
    const changed = assessmentOf({ answer: { login: 'untried', changedByUser: ['app'] } })
    expect([changed.pending, changed.serves]).toEqual([undefined, true])
  })

  test('is said to be hopeless where waiting alone does not mend it', () => {
    const refusal = { claim: claim.metadata.uid ?? '', storage: '2Gi', message: 'quota', retryAt: 0, isDue: false }
    const given = { ...growing, rest: { ...growing.rest, growthRefusal: refusal } }
    expect(assessmentOf(given).pending).toEqual({
      step: 'Growing',
      reason: 'GrowthRefused',
      message: 'the volume must not grow: quota',
      isHopeless: true,
    })
  })

  /** The StatefulSet is as it is to be. */
  const resting = assessmentOf({ spec: { suspended: true }, pod: undefined }).desired.statefulSet
  const blocked = { rest: { suspensionBlock: hold } }

  test.each<[string, Given, step: string | undefined, message: string, reason?: string]>([
    ['its StatefulSet', { children: { statefulSet } }, 'Preparing', 'preparing the instance'],
    ['the pod to end', {}, 'Stopping', 'stopping Postgres'],
    ['nothing more once there is none', { pod: undefined }, undefined, ''],
    ['nothing of Postgres, which does not run', { pod: undefined, postgres: undefined }, undefined, ''],
    [
      'its endpoint',
      { pod: undefined, children: { route: other(route) } },
      'OpeningEndpoint',
      'the rules are being written',
    ],
    ['what needs it running', { ...blocked, children: { statefulSet } }, 'Stopping', hold.message, hold.reason],
    ['no longer that, once it is on its way down', blocked, 'Stopping', 'stopping Postgres'],
    ['its node', { rest: { node: silent } }, 'Stopping', 'nothing has been heard of node node-1', 'NodeLost'],
    [
      'a node that it has no pod on',
      { pod: undefined, rest: { node: silent } },
      'Starting',
      'nothing has been heard of node node-1',
      'NodeLost',
    ],
    [
      'its volume to be kept',
      { children: { claim: going, statefulSet } },
      'Stopping',
      'somebody deletes the volume claim',
      'VolumeBeingDeleted',
    ],
    ['nothing of its volume without a pod', { pod: undefined, children: { claim: going } }, undefined, ''],
    [
      'nothing of a size whose volume grows only under a pod',
      { ...growing, pod: undefined, children: { claim: lagging } },
      undefined,
      '',
    ],
  ])('of a database that is to be suspended is %s', (_, given, step, message, reason = step) => {
    const children = { statefulSet: resting, ...given.children }
    const { pending } = assessmentOf({ ...given, spec: { suspended: true, ...given.spec }, children })
    if (step === undefined) expect(pending).toBeUndefined()
    else expect(pending).toMatchObject({ step, reason, message: expect.stringContaining(message) })
  })

  test('is what is fatal, before all else', () => {
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
  /** Rules on their way. */
  const written = { children: { route: other(route) } }
  const acknowledged = (waitingFor: string[]): Given => ({
    route: { acknowledged: false, waitingFor },
    rest: { isAtRest: false },
  })
  const notBefore = { conditions: { Ready: { status: 'False' as const } } }

  test.each<[string, Given]>([
    ['as it is', {}],
    ['a database that was not served before', notBefore],
    ['whoever has a password, where the Secret is gone', { rest: { credentials: { state: 'absent' } } }],
    ['one that is to be suspended, as long as it runs', { spec: { suspended: true } }],
    ['one whose last look was too slow: what was found stands', { answer: undefined }],
    ['one whose operator began anew: what was found stands', { postgres: undefined }],
    [
      'one whose pod is not ready since its disk is full',
      { pod: { ready: false }, postgres: { ready: false }, answer: { hasRoom: false } },
    ],
    ['one with new rules on their way', written],
    ['one with new rules that a gateway has not yet', acknowledged(['gateway-1'])],
    ['one whose platform role is not there yet', { answer: { platformInOrder: false } }],
  ])('%s: yes', (_, given) => {
    expect(ready(given)).toEqual({ status: 'True', reason: 'Serving', message: 'Postgres answers clients' })
  })

  test.each<[string, Given, reason: string, message?: string]>([
    ['one that is suspended', { spec: { suspended: true }, pod: undefined }, 'Suspended', 'the database is suspended'],
    ['one without a pod', { pod: undefined }, 'NotRunning', 'Postgres does not run'],
    ['one whose Service is gone', { children: { service: undefined } }, 'ServiceMissing', 'its Service is being made'],
    ['one on a node that is silent', { rest: { node: silent } }, 'NodeLost', 'nothing has been heard of node node-1'],
    ['one that does not run', { pod: { address: undefined } }, 'NotRunning', 'Postgres does not run'],
    ['one that ends', { pod: { terminating: true } }, 'NotRunning', 'Postgres does not run'],
    ['one that fails to start', { pod: { address: undefined, trouble } }, 'CrashLoopBackOff', 'it ended'],
    ['one that refuses', { answer: refused }, 'NotAnswering', 'no answer in 5 s'],
    [
      'one that is trusted by nobody',
      { answer: { ...refused, reason: 'tls' } },
      'NotTrusted',
      'no answer in 5 s; Postgres goes by an authority that is not here any more',
    ],
    [
      'one that does not let us in',
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
      'the roles get their passwords',
    ],
    [
      'one without credentials, of which new ones are asked for',
      { rest: { credentials: { state: 'absent' }, rotations: { asked: { app: 'new' }, isGivenUp: false } } },
      'Minting',
      'the credentials are being minted',
    ],
    ['one that refuses a login', { answer: { login: 'refused', loginMessage: 'no hba' } }, 'LoginRefused', 'no hba'],
    [
      'one that refuses a login, without a word',
      { answer: { login: 'refused' } },
      'LoginRefused',
      'a login as app was refused',
    ],
    [
      'one that its Service does not lead to',
      { answer: { login: 'unreachable', loginMessage: 'its Service does not lead to it yet: no' } },
      'NotReachable',
      'its Service does not lead to it yet: no',
    ],
    ['one whose pod is not ready', { pod: { ready: false } }, 'PodNotReady', 'the pod is not ready'],
    ['one that is not open yet', { ...notBefore, ...written }, 'RulesPending', 'the rules are being written'],
    [
      'one that no gateway has opened yet',
      { ...notBefore, ...acknowledged([]) },
      'AcknowledgementPending',
      'waiting for a gateway: none is running',
    ],
    ['one whose port is taken', { route: { refused: true } }, 'PortInUse', 'port 20000 is in use'],
  ])('%s: no', (_, given, reason, message = '') => {
    expect(ready(given)).toMatchObject({ status: 'False', reason, message: expect.stringContaining(message) })
    expect(assessmentOf(given).serves).toBe(false)
  })
})

describe('the endpoint', () => {
  const endpoint = (given: Given) => assessmentOf(given).findings.EndpointReady
  const unheard = (waitingFor: string[]) => ({ acknowledged: false, waitingFor })
  const rulesOf = (given: Given) => assessmentOf(given).desired.rules

  test.each<[string, Given, string, string, string]>([
    ['is open', {}, 'True', 'InForce', 'the rules are in force'],
    [
      'is closed as asked',
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
      { route: unheard(['a', 'b']), rest: { isAtRest: false } },
      'False',
      'AcknowledgementPending',
      'waiting for a, b',
    ],
    [
      'waits for one to come',
      { route: unheard([]), rest: { isAtRest: false } },
      'False',
      'AcknowledgementPending',
      'waiting for a gateway: none is running',
    ],
    [
      'is not open before anybody has acknowledged it',
      { route: unheard(['a']), conditions: { EndpointReady: { status: 'False' } } },
      'False',
      'AcknowledgementPending',
      'waiting for a',
    ],
    [
      'stays open at rest, whichever gateway comes',
      { route: unheard(['a']) },
      'True',
      'InForce',
      'the rules are in force',
    ],
    ['has no port yet', { route: undefined }, 'False', 'PortPending', 'a port is being claimed'],
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
    ['whose volume is not on record', { status: { volume: undefined } }, false],
    ['that was closed, before its roles are in order', { ...isShut, answer: { rolesInOrder: false } }, false],
    ['that was closed, before anybody can log in', { ...isShut, answer: { login: 'refused' } }, false],
    ['that was closed, before Postgres has answered', { ...isShut, answer: undefined }, false],
    ['that was closed, once they are', isShut, true],
    ['that is open stays so, whatever Postgres says', { answer: { rolesInOrder: false } }, true],
    ['that is open stays so while nothing is heard', { answer: undefined }, true],
    ['whose route says nothing', { answer: undefined, route: { route: undefined } }, false],
    ['of a database whose data are lost', { children: { claim: undefined } }, false],
  ])('%s has its rules: %#', (_, given, is) => {
    expect(rulesOf(given)).toEqual(is ? ['203.0.113.0/24'] : [])
  })
})

describe('a pod is made anew', () => {
  const marked = (marks: { restart?: string; maintenance?: string }) => () => ({
    ...noRestarts({ newestTemplate: undefined, image: undefined, configurationDigest: undefined }),
    marks: { restart: undefined, maintenance: undefined, ...marks },
  })
  const had = { restart: 'r1', maintenance: 'm1' }

  test.each<[string, { restart?: string; maintenance?: string }, boolean]>([
    ['for no restart', {}, false],
    ['for those it has had', had, false],
    ['for one that is asked for', { restart: 'r2' }, true],
    ['for one in a window', { maintenance: 'm2' }, true],
    ['for one of two', { ...had, maintenance: 'm2' }, true],
  ])('%s, or not', (_, marks, is) => {
    // The StatefulSet has the marks by then.
    const restarts = marked(marks)
    const { statefulSet } = assessmentOf({ pod: { marks: had } }, restarts).desired
    const { pending } = assessmentOf({ pod: { marks: had }, children: { statefulSet } }, restarts)
    expect(pending?.message).toBe(is ? 'restarting Postgres' : undefined)
  })
})

test("the installation's keys are said to be there, where they are", () => {
  expect(assessmentOf().findings.KeysAvailable).toMatchObject({ status: 'True', reason: 'Present' })
})

describe('a claim is marked with the number of the data on it', () => {
  const marked = (given: Given) => assessmentOf(given).desired.claim?.metadata.annotations?.[systemIdentifierAnnotation]
  test.each<[string, Given, string | undefined]>([
    ['as on record, before all else', { answer: { systemIdentifier: 'system-9' } }, onRecord.volume?.systemIdentifier],
    [
      'as Postgres says at first',
      { status: { volume: undefined }, answer: { systemIdentifier: 'system-9' } },
      'system-9',
    ],
    ['not before it has answered', { status: { volume: undefined }, answer: undefined }, undefined],
    [
      'not where the pod refuses what it found there',
      { status: { volume: undefined }, pod: { trouble: { ...trouble, refusal: 'other-database' } } },
      undefined,
    ],
  ])('%s', (_, given, identifier) => {
    expect(marked(given)).toBe(identifier)
  })
})
