/**
 * A world in which the plan's actions are carried out in memory, at once and without fail, and the cluster does its part
 * after each round: for properties of the plan alone.
 */

import type { AnyObject, Draft, KindName, PersistentVolumeClaim, Pod, StatefulSet } from '../../cluster/index.ts'
import {
  apiVersion,
  childNames,
  labels,
  type ManagedDatabase,
  type ManagedDatabaseStatus,
  type Region,
  type Size,
  type Task,
  teardownFinalizer,
} from '../../crds/index.ts'
import { exitCodes } from '../../instance/refusal.ts'
import { portOfRoute, readRoute } from '../../routes/route.ts'
import { noDrifts } from '../children/drift-history.ts'
import { routeDraft } from '../endpoint/route.ts'
import type { Action } from '../managed-database/actions.ts'
import { isAtRest, type Observed } from '../managed-database/observed.ts'
import { type Plan, plan } from '../managed-database/plan/index.ts'
import type { PostgresAnswer } from '../member/observed.ts'
import { appliedSizeOf } from '../member/pod/applied-size.ts'
import { podFacts } from '../member/pod/pod.ts'
import { sizeText } from '../member/pod/stateful-set.ts'
import { configurationAnnotation, instanceFile } from '../member/postgres/configuration.ts'
import { childMetadata, ownerOf, ownerUidOf } from '../objects/ownership.ts'
import { stamped } from '../objects/up-to-date.ts'
import { noServices } from '../service/observed.ts'
import { progressOf, verdictOn } from '../task/progress.ts'
import { subjectOf } from '../task/subject.ts'
import type { Identity } from '../workload/identity.ts'
import { regionDraft, sizeDraft, testConfiguration, testNamespace } from './installation.ts'
import { plainSpec } from './samples.ts'

const worldId = '5e1d9a52-3f0e-4b43-9c0f-0a1b2c3d4e5f'
const uid = 'database-uid'

type Kept =
  | 'Secret'
  | 'PersistentVolumeClaim'
  | 'ConfigMap'
  | 'Service'
  | 'NetworkPolicy'
  | 'PodDisruptionBudget'
  | 'StatefulSet'
  | 'Deployment'
  | 'Pod'
type Stored = Pick<AnyObject, 'metadata'> & Record<string, unknown>

export type World = {
  database: ManagedDatabase | undefined
  objects: Map<string, Stored>
  tasks: Map<string, Task>
  /** By their names. */
  sizes: Map<string, Size>
  /** Whether volumes get what is asked of them, do not yet, or must not ask. */
  growth: 'answered' | 'held' | 'refused'
  growthRefusal: Observed['growthRefusal']
  suspensionBlock: Observed['suspensionBlock']
  volumeUse: Observed['volumeUse']
  hasRoom: boolean
  /** Whether a claim for so much storage gets a volume. */
  provides: (storage: string) => boolean
  region: Region | undefined
  keys: boolean
  /** What is on each volume, by the claim's uid. */
  data: Map<string, { systemIdentifier: string; mark: string | undefined }>
  gatewayAnswers: boolean
  podSettings: Observed['podSettings']
  now: number
  minted: number
}

const inForceEverywhere = { isMounted: true, refused: null, errors: [], pendingRestart: [] }

const place = (kind: string, name: string): string => `${kind}/${name}`

export const settings = { deadlines: testConfiguration.deadlines }

/** A draft with its spec is whole. */
const sizeOf = (name: string): Size =>
  ({ ...sizeDraft(name, name === 'large' ? { storageSize: '2Gi' } : {}), apiVersion, kind: 'Size' }) as Size

export function emptyWorld(spec: Partial<ManagedDatabase['spec']> = {}, status: ManagedDatabaseStatus = {}): World {
  return {
    database: {
      apiVersion,
      kind: 'ManagedDatabase',
      metadata: { name: 'one', namespace: testNamespace, uid, generation: 1, labels: { [labels.id]: worldId } },
      spec: {
        ...plainSpec,
        ipAllowlist: { rules: [{ cidr: '203.0.113.7/24' }] },
        ...spec,
      },
      status,
    },
    objects: new Map(),
    tasks: new Map(),
    sizes: new Map(['small', 'large'].map(name => [`${name}-v1`, sizeOf(name)])),
    growth: 'answered',
    growthRefusal: undefined,
    suspensionBlock: undefined,
    volumeUse: undefined,
    hasRoom: true,
    provides: () => true,
    region: { ...regionDraft(), apiVersion, kind: 'Region' } as Region,
    keys: true,
    data: new Map(),
    gatewayAnswers: true,
    podSettings: testConfiguration.pods,
    now: Date.parse('2026-01-01T00:00:00Z'),
    minted: 0,
  }
}

const get = <T>(world: World, kind: Kept, name: string): T | undefined =>
  world.objects.get(place(kind, name)) as T | undefined // objects are kept under their kind

const allOf = <T>(world: World, kind: Kept): T[] =>
  [...world.objects].filter(([key]) => key.startsWith(`${kind}/`)).map(([, object]) => object as T)

function answerOf(world: World): { answer: PostgresAnswer; mark: string | undefined } | undefined {
  const claim = get<AnyObject>(world, 'PersistentVolumeClaim', childNames.claim(worldId, 1))
  const data = world.data.get(claim?.metadata.uid ?? '')
  const mark = get<AnyObject>(world, 'Secret', childNames.credentials(worldId))?.metadata.uid
  const map = get<AnyObject>(world, 'ConfigMap', childNames.configuration(worldId, 1))
  const digest = map?.metadata.annotations?.[configurationAnnotation] ?? null
  if (data === undefined) return undefined
  const answer: PostgresAnswer = {
    state: 'answered',
    systemIdentifier: data.systemIdentifier,
    rolesInOrder: data.mark !== undefined && data.mark === mark,
    changedByUser: [],
    login: data.mark === mark ? 'succeeded' : 'untried',
    certificate: undefined,
    hasRoom: world.hasRoom,
    walHangs: false,
    checksumFailures: undefined,
    walPosition: '0/1',
    platformInOrder: true,
    configuration: { ...inForceEverywhere, inForce: digest, onDisk: digest },
  }
  return { answer, mark }
}

/** What a pass would observe of the world. */
export function observedIn(world: World): Observed {
  const { database } = world
  if (database === undefined) throw new Error('the database is gone')
  const id = database.metadata.labels?.[labels.id]
  const identity: Identity =
    id === worldId
      ? { state: 'settled', owner: ownerOf(database, worldId) }
      : { state: 'unsettled', id: worldId, why: 'lost' }
  const pod = get<Observed['children']['pod'] & object>(world, 'Pod', childNames.pod(worldId, 1))
  const routes = allOf<Observed['owned']['routes'][number]>(world, 'ConfigMap').filter(
    map => portOfRoute(map.metadata.name) !== undefined,
  )
  const route = routes[0]
  const secret = get<AnyObject>(world, 'Secret', childNames.credentials(worldId))
  const facts = pod && podFacts(pod)
  const claim = get<PersistentVolumeClaim>(world, 'PersistentVolumeClaim', childNames.claim(worldId, 1))
  const told = facts?.address === undefined ? undefined : answerOf(world)
  const credentials = secret && {
    state: 'readable' as const,
    mark: secret.metadata.uid ?? '',
    mintedAt: '2026-01-01T00:00:00Z',
    rotations: {},
    previous: [],
  }
  const statefulSet = get<StatefulSet>(world, 'StatefulSet', childNames.statefulSet(worldId, 1))
  const appliedSize = appliedSizeOf(database, statefulSet, facts)
  return {
    instance: database,
    number: 0,
    owner: identity.state === 'settled' ? identity.owner : undefined,
    isAtRest: isAtRest(database),
    suspensionBlock: world.suspensionBlock,
    rotations: { asked: {}, isGivenUp: false },
    restoring: undefined,
    previous: { claims: [], restores: [] },
    clockDoubt: undefined,
    database,
    identity,
    keys: { sealingKey: world.keys, authority: world.keys, isChanging: false },
    region: world.region,
    size: world.sizes.get(sizeText(database.spec.size)),
    appliedSize: { pinned: appliedSize, size: world.sizes.get(sizeText(appliedSize)) },
    growthRefusal: world.growthRefusal,
    drifts: noDrifts,
    isCutOff: false,
    services: noServices({ image: undefined, settings: testConfiguration.services, nodes: 'unknown' }),
    serviceChildren: [],
    image: 'postgres:18',
    podSettings: world.podSettings,
    incarnation: 1,
    isOrphanClaim: claim !== undefined && ownerUidOf(claim) !== uid,
    children: {
      credentials: get(world, 'Secret', childNames.credentials(worldId)),
      certificate: get(world, 'Secret', childNames.tls(worldId)),
      claim,
      configuration: get(world, 'ConfigMap', childNames.configuration(worldId, 1)),
      service: get(world, 'Service', childNames.service(worldId)),
      networkPolicy: get(world, 'NetworkPolicy', childNames.service(worldId)),
      disruptionBudget: get(world, 'PodDisruptionBudget', childNames.service(worldId)),
      statefulSet,
      pod,
      route,
    },
    owned: {
      volumes: [],
      statefulSets: allOf(world, 'StatefulSet'),
      deployments: allOf(world, 'Deployment'),
      pods: allOf(world, 'Pod'),
      services: allOf(world, 'Service'),
      networkPolicies: allOf(world, 'NetworkPolicy'),
      disruptionBudgets: allOf(world, 'PodDisruptionBudget'),
      configurations: allOf<NonNullable<typeof route>>(world, 'ConfigMap').filter(
        map => portOfRoute(map.metadata.name) === undefined,
      ),
      claims: allOf(world, 'PersistentVolumeClaim'),
      secrets: allOf(world, 'Secret'),
      routes,
    },
    volumes: { bound: undefined, recorded: undefined, copy: undefined },
    retained: [],
    copyNode: undefined,
    provisionsWithoutPod: false,
    provisioning: undefined,
    pod: facts,
    node: undefined,
    credentials: credentials ?? { state: 'absent' },
    certificate: world.objects.has(place('Secret', childNames.tls(worldId)))
      ? { state: 'good', fingerprint: undefined, issuedAt: undefined, isLoaded: false }
      : { state: 'absent' },
    route: route && {
      port: portOfRoute(route.metadata.name) ?? 0,
      route: readRoute(route).route,
      acknowledged: world.gatewayAnswers,
      waitingFor: [],
      refused: false,
    },
    postgres: facts &&
      told && { at: world.now, run: facts.run, ready: true, ...told, slow: 0, isDoubtful: false, isOutdated: false },
    dataBytes: 8_000_000,
    volumeUse: world.volumeUse,
    branches: [],
    backups: [],
    task: world.tasks.get(database.status?.operation?.taskId ?? ''),
    connectionSecrets: { isAsked: false, wanted: [], unwanted: [] },
    annotatedTask: undefined,
  }
}

const put = (world: World, kind: Kept, draft: Draft<KindName>): void => {
  const before = world.objects.get(place(kind, draft.metadata.name))
  const kept = before?.metadata.uid ?? `${kind}-${++world.minted}`
  world.objects.set(place(kind, draft.metadata.name), { ...draft, metadata: { ...draft.metadata, uid: kept } })
}

function perform(world: World, action: Action): void {
  const { database } = world
  if (database === undefined) return
  const owner = ownerOf(database, worldId)
  const named = (kind: 'Secret', name: string, component: 'credentials' | 'tls') =>
    put(world, kind, { apiVersion: 'v1', kind, metadata: childMetadata(owner, name, component) })
  switch (action.do) {
    case 'identify':
      database.metadata = {
        ...database.metadata,
        labels: { ...database.metadata.labels, [labels.id]: action.id ?? worldId },
        finalizers: [teardownFinalizer],
      }
      return
    case 'mark':
      put(world, action.kind as Kept, action.object as Draft<KindName>)
      return
    case 'find-credentials':
      return
    case 'mint-credentials':
      named('Secret', childNames.credentials(worldId), 'credentials')
      return
    case 'issue-certificate':
      named('Secret', childNames.tls(worldId), 'tls')
      return
    case 'create-claim':
      put(world, 'PersistentVolumeClaim', action.draft)
      return
    case 'grow-claim': {
      const storage = action.claim.spec?.resources?.requests?.storage ?? ''
      const claim = action.claim.metadata.uid ?? ''
      if (world.growth === 'refused')
        world.growthRefusal = { claim, storage, message: 'quota', retryAt: Number.POSITIVE_INFINITY, isDue: false }
      else put(world, 'PersistentVolumeClaim', action.claim)
      return
    }
    case 'update-claim':
      put(world, 'PersistentVolumeClaim', action.claim)
      return
    case 'apply':
      put(world, action.kind, action.draft)
      return
    case 'claim-port':
      put(world, 'ConfigMap', stamped(routeDraft(owner, action.preferred ?? 20000, [])))
      return
    case 'leave-port':
      world.objects.delete(place('ConfigMap', `route-${action.port}`))
      return
    case 'delete':
      world.objects.delete(place(action.kind, action.name))
      return
    case 'ensure-roles': {
      const claim = get<AnyObject>(world, 'PersistentVolumeClaim', childNames.claim(worldId, 1))
      const data = world.data.get(claim?.metadata.uid ?? '')
      const secret = get<AnyObject>(world, 'Secret', childNames.credentials(worldId))
      if (data) data.mark = secret?.metadata.uid
      return
    }
    case 'mint-service-secret':
    case 'create-service-configuration':
    case 'delete-service-workload':
    case 'delete-service-configuration':
    case 'relabel':
    case 'repair-pod':
    case 'reload':
    case 'note-loaded':
    case 'rotate-passwords':
    case 'forget-previous-passwords':
    case 'take-back-passwords':
      return
    case 'finish-deletion':
      world.database = undefined
  }
}

type SetInWorld = {
  spec: {
    replicas: number
    template: { metadata: { annotations: Record<string, string>; labels: Record<string, string> } }
  }
}

/** Gives a claim its volume, and what more it asks for. */
function provide(world: World, claim: PersistentVolumeClaim): void {
  const storage = claim.spec?.resources?.requests?.storage ?? '0'
  const isBound = claim.status?.phase === 'Bound'
  if (isBound && world.growth !== 'answered') return
  const status = isBound || world.provides(storage) ? { phase: 'Bound', capacity: { storage } } : { phase: 'Pending' }
  world.objects.set(place('PersistentVolumeClaim', claim.metadata.name), { ...claim, status })
}

/** What the cluster, its nodes and the controller of Tasks do between two passes. */
function turn(world: World): void {
  world.now += 1000
  const claim = get<PersistentVolumeClaim>(world, 'PersistentVolumeClaim', childNames.claim(worldId, 1))
  if (claim) provide(world, claim)
  turnPod(world)
  turnTasks(world)
}

function turnPod(world: World): void {
  const set = get<SetInWorld>(world, 'StatefulSet', childNames.statefulSet(worldId, 1))
  const podName = childNames.pod(worldId, 1)
  const pod = place('Pod', podName)
  if (set?.spec.replicas !== 1) world.objects.delete(pod)
  const claim = get<PersistentVolumeClaim>(world, 'PersistentVolumeClaim', childNames.claim(worldId, 1))
  const isBound = claim?.status?.phase === 'Bound'
  const isUnscheduled = get<Pod>(world, 'Pod', podName)?.status?.conditions !== undefined
  const map = get<{ data: Record<string, string> }>(world, 'ConfigMap', childNames.configuration(worldId, 1))
  const isMissing = !world.objects.has(pod) || (isUnscheduled && isBound)
  if (set?.spec.replicas !== 1 || !isMissing || !claim?.metadata.uid || !map) return
  const { annotations, labels: marks } = set.spec.template.metadata
  const uid = `pod-${++world.minted}`
  const metadata = { name: podName, namespace: testNamespace, uid, annotations, labels: marks }
  const status = isBound ? started(world, claim.metadata.uid, map) : unscheduled
  world.objects.set(pod, { metadata, status })
}

const unscheduled = { conditions: [{ type: 'PodScheduled', status: 'False' }] }

/** What comes of a pod on a volume, which it initialises where it may. */
function started(world: World, claimUid: string, map: { data: Record<string, string> }): object {
  const mayInitialise = JSON.parse(map.data[instanceFile] ?? '{}').initialise === true
  if (!world.data.has(claimUid) && mayInitialise)
    world.data.set(claimUid, { systemIdentifier: `system-${++world.minted}`, mark: undefined })
  const running = { name: 'postgres', ready: true, restartCount: 0, image: '', imageID: '', state: { running: {} } }
  const terminated = { exitCode: exitCodes['volume-empty'], message: 'the volume is empty' }
  const refused = { ...running, name: 'prepare', ready: false, state: { terminated } }
  return world.data.has(claimUid)
    ? { podIP: '10.0.0.1', containerStatuses: [running] }
    : { initContainerStatuses: [refused] }
}

function turnTasks(world: World): void {
  const { database } = world
  const operation = database?.status?.operation
  if (database && operation && !world.tasks.has(operation.taskId)) {
    const subject = { kind: 'database' as const, id: worldId, name: 'one' }
    world.tasks.set(operation.taskId, {
      apiVersion,
      kind: 'Task',
      metadata: { name: operation.taskId, labels: { [labels.id]: operation.taskId } },
      spec: { name: operation.name, subject },
    })
  }
  for (const [taskId, task] of world.tasks) {
    if (database && operation?.taskId === taskId) task.status = progressOf(task.status, subjectOf(database), world.now)
    else if (task.status?.finishedAt === undefined) {
      const verdict = verdictOn(task, database && subjectOf(database), world.now)
      if (verdict.state === 'over') task.status = { phase: verdict.error ? 'failed' : 'succeeded', finishedAt: 'now' }
    }
  }
}

/** One pass and what follows from it; gives what was planned on what, for the invariants. */
export function round(world: World): { observed: Observed; planned: Plan } | undefined {
  if (world.database === undefined) return undefined
  const observed = observedIn(world)
  const planned = plan(observed, world.now, settings)
  for (const action of planned.actions) perform(world, action)
  if (world.database !== undefined && !planned.actions.some(action => action.do === 'identify'))
    world.database = { ...world.database, status: planned.status }
  turn(world)
  return { observed, planned }
}
