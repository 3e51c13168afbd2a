/**
 * A cluster state in memory, for properties of the plan alone. The plan's actions are executed at once and without
 * errors. After each round the cluster acts.
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
import { noImport } from '../managed-database/import/facts.ts'
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
import { outcomeOf, progressOf } from '../task/progress.ts'
import { subjectOf } from '../task/subject.ts'
import type { Identity } from '../workload/identity.ts'
import { regionDraft, sizeDraft, testConfiguration, testNamespace } from './installation.ts'
import { plainSpec } from './samples.ts'

const databaseId = '5e1d9a52-3f0e-4b43-9c0f-0a1b2c3d4e5f'
const uid = 'database-uid'

type StoredKind =
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

export type ClusterState = {
  database: ManagedDatabase | undefined
  objects: Map<string, Stored>
  tasks: Map<string, Task>
  /** By name. */
  sizes: Map<string, Size>
  /** Whether volumes grow as requested, do not grow yet, or must not be requested to grow. */
  growth: 'answered' | 'held' | 'refused'
  growthRefusal: Observed['growthRefusal']
  suspensionBlock: Observed['suspensionBlock']
  volumeUse: Observed['volumeUse']
  hasFreeSpace: boolean
  /** Whether a claim for this much storage gets a volume. */
  provides: (storage: string) => boolean
  region: Region | undefined
  keys: boolean
  /** The content of each volume, by the claim's uid. */
  data: Map<string, { systemIdentifier: string; passwordVersion: string | undefined }>
  gatewayAnswers: boolean
  podSettings: Observed['podSettings']
  now: number
  minted: number
}

const inForceEverywhere = { isMounted: true, refused: null, errors: [], pendingRestart: [] }

const keyOf = (kind: string, name: string): string => `${kind}/${name}`

export const settings = { deadlines: testConfiguration.deadlines }

/** A draft with its spec is a complete object. */
const sizeOf = (name: string): Size =>
  ({ ...sizeDraft(name, name === 'large' ? { storageSize: '2Gi' } : {}), apiVersion, kind: 'Size' }) as Size

export function emptyClusterState(
  spec: Partial<ManagedDatabase['spec']> = {},
  status: ManagedDatabaseStatus = {},
): ClusterState {
  return {
    database: {
      apiVersion,
      kind: 'ManagedDatabase',
      metadata: { name: 'one', namespace: testNamespace, uid, generation: 1, labels: { [labels.id]: databaseId } },
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
    hasFreeSpace: true,
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

const get = <T>(clusterState: ClusterState, kind: StoredKind, name: string): T | undefined =>
  clusterState.objects.get(keyOf(kind, name)) as T | undefined // objects are kept under their kind

const allOf = <T>(clusterState: ClusterState, kind: StoredKind): T[] =>
  [...clusterState.objects].filter(([key]) => key.startsWith(`${kind}/`)).map(([, object]) => object as T)

function answerOf(
  clusterState: ClusterState,
): { answer: PostgresAnswer; passwordVersion: string | undefined } | undefined {
  const claim = get<AnyObject>(clusterState, 'PersistentVolumeClaim', childNames.claim(databaseId, 1))
  const data = clusterState.data.get(claim?.metadata.uid ?? '')
  const passwordVersion = get<AnyObject>(clusterState, 'Secret', childNames.credentials(databaseId))?.metadata.uid
  const map = get<AnyObject>(clusterState, 'ConfigMap', childNames.configuration(databaseId, 1))
  const digest = map?.metadata.annotations?.[configurationAnnotation] ?? null
  if (data === undefined) return undefined
  const answer: PostgresAnswer = {
    state: 'answered',
    systemIdentifier: data.systemIdentifier,
    rolesInOrder: data.passwordVersion !== undefined && data.passwordVersion === passwordVersion,
    changedByUser: [],
    login: data.passwordVersion === passwordVersion ? 'succeeded' : 'untried',
    certificate: undefined,
    hasFreeSpace: clusterState.hasFreeSpace,
    walHangs: false,
    checksumFailures: undefined,
    walPosition: '0/1',
    platformInOrder: true,
    configuration: { ...inForceEverywhere, inForce: digest, onDisk: digest },
  }
  return { answer, passwordVersion }
}

/** The state as a pass observes it. */
export function observedIn(clusterState: ClusterState): Observed {
  const { database } = clusterState
  if (database === undefined) throw new Error('the database is gone')
  const id = database.metadata.labels?.[labels.id]
  const identity: Identity =
    id === databaseId
      ? { state: 'settled', owner: ownerOf(database, databaseId) }
      : { state: 'unsettled', id: databaseId, why: 'lost' }
  const pod = get<Observed['children']['pod'] & object>(clusterState, 'Pod', childNames.pod(databaseId, 1))
  const routes = allOf<Observed['owned']['routes'][number]>(clusterState, 'ConfigMap').filter(
    map => portOfRoute(map.metadata.name) !== undefined,
  )
  const route = routes[0]
  const secret = get<AnyObject>(clusterState, 'Secret', childNames.credentials(databaseId))
  const facts = pod && podFacts(pod)
  const claim = get<PersistentVolumeClaim>(clusterState, 'PersistentVolumeClaim', childNames.claim(databaseId, 1))
  const answered = facts?.address === undefined ? undefined : answerOf(clusterState)
  const credentials = secret && {
    state: 'readable' as const,
    passwordVersion: secret.metadata.uid ?? '',
    mintedAt: '2026-01-01T00:00:00Z',
    rotations: {},
    previous: [],
  }
  const statefulSet = get<StatefulSet>(clusterState, 'StatefulSet', childNames.statefulSet(databaseId, 1))
  const appliedSize = appliedSizeOf(database, statefulSet, facts)
  return {
    instance: database,
    number: 0,
    owner: identity.state === 'settled' ? identity.owner : undefined,
    isAtRest: isAtRest(database),
    suspensionBlock: clusterState.suspensionBlock,
    rotations: { requested: {}, isGivenUp: false },
    restoring: undefined,
    previous: { claims: [], restores: [] },
    importing: noImport,
    clockDistrust: undefined,
    database,
    identity,
    keys: { sealingKey: clusterState.keys, authority: clusterState.keys, isChanging: false },
    region: clusterState.region,
    size: clusterState.sizes.get(sizeText(database.spec.size)),
    appliedSize: { pinned: appliedSize, size: clusterState.sizes.get(sizeText(appliedSize)) },
    growthRefusal: clusterState.growthRefusal,
    drifts: noDrifts,
    isCutOff: false,
    services: noServices({ image: undefined, settings: testConfiguration.services, nodes: 'unknown' }),
    serviceChildren: [],
    image: 'postgres:18',
    podSettings: clusterState.podSettings,
    incarnation: 1,
    isOrphanClaim: claim !== undefined && ownerUidOf(claim) !== uid,
    children: {
      credentials: get(clusterState, 'Secret', childNames.credentials(databaseId)),
      certificate: get(clusterState, 'Secret', childNames.tls(databaseId)),
      claim,
      configuration: get(clusterState, 'ConfigMap', childNames.configuration(databaseId, 1)),
      service: get(clusterState, 'Service', childNames.service(databaseId)),
      networkPolicy: get(clusterState, 'NetworkPolicy', childNames.service(databaseId)),
      disruptionBudget: get(clusterState, 'PodDisruptionBudget', childNames.service(databaseId)),
      statefulSet,
      pod,
      route,
    },
    owned: {
      volumes: [],
      statefulSets: allOf(clusterState, 'StatefulSet'),
      deployments: allOf(clusterState, 'Deployment'),
      pods: allOf(clusterState, 'Pod'),
      services: allOf(clusterState, 'Service'),
      networkPolicies: allOf(clusterState, 'NetworkPolicy'),
      disruptionBudgets: allOf(clusterState, 'PodDisruptionBudget'),
      configurations: allOf<NonNullable<typeof route>>(clusterState, 'ConfigMap').filter(
        map => portOfRoute(map.metadata.name) === undefined,
      ),
      claims: allOf(clusterState, 'PersistentVolumeClaim'),
      secrets: allOf(clusterState, 'Secret'),
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
    certificate: clusterState.objects.has(keyOf('Secret', childNames.tls(databaseId)))
      ? { state: 'good', fingerprint: undefined, issuedAt: undefined, isLoaded: false }
      : { state: 'absent' },
    route: route && {
      port: portOfRoute(route.metadata.name) ?? 0,
      route: readRoute(route).route,
      acknowledged: clusterState.gatewayAnswers,
      waitingFor: [],
      refused: false,
    },
    postgres: facts &&
      answered && {
        at: clusterState.now,
        run: facts.run,
        ready: true,
        ...answered,
        slow: 0,
        isUncertain: false,
        isOutdated: false,
      },
    dataBytes: 8_000_000,
    volumeUse: clusterState.volumeUse,
    branches: [],
    backups: [],
    task: clusterState.tasks.get(database.status?.operation?.taskId ?? ''),
    connectionSecrets: { isRequested: false, wanted: [], unwanted: [] },
    annotatedTask: undefined,
  }
}

const put = (clusterState: ClusterState, kind: StoredKind, draft: Draft<KindName>): void => {
  const before = clusterState.objects.get(keyOf(kind, draft.metadata.name))
  const objectUid = before?.metadata.uid ?? `${kind}-${++clusterState.minted}`
  clusterState.objects.set(keyOf(kind, draft.metadata.name), {
    ...draft,
    metadata: { ...draft.metadata, uid: objectUid },
  })
}

function perform(clusterState: ClusterState, action: Action): void {
  const { database } = clusterState
  if (database === undefined) return
  const owner = ownerOf(database, databaseId)
  const named = (kind: 'Secret', name: string, component: 'credentials' | 'tls' | 'archive') =>
    put(clusterState, kind, { apiVersion: 'v1', kind, metadata: childMetadata(owner, name, component) })
  switch (action.do) {
    case 'identify':
      database.metadata = {
        ...database.metadata,
        labels: { ...database.metadata.labels, [labels.id]: action.id ?? databaseId },
        finalizers: [teardownFinalizer],
      }
      return
    case 'label':
      put(clusterState, action.kind as StoredKind, action.object as Draft<KindName>)
      return
    case 'find-credentials':
      return
    case 'mint-credentials':
      named('Secret', childNames.credentials(databaseId), 'credentials')
      return
    case 'issue-certificate':
      named('Secret', childNames.tls(databaseId), 'tls')
      return
    case 'issue-archive-certificate':
      named('Secret', childNames.archive(databaseId, 1), 'archive')
      return
    case 'create-claim':
      put(clusterState, 'PersistentVolumeClaim', action.draft)
      return
    case 'grow-claim': {
      const storage = action.claim.spec?.resources?.requests?.storage ?? ''
      const claim = action.claim.metadata.uid ?? ''
      if (clusterState.growth === 'refused')
        clusterState.growthRefusal = {
          claim,
          storage,
          message: 'quota',
          retryAt: Number.POSITIVE_INFINITY,
          isDue: false,
        }
      else put(clusterState, 'PersistentVolumeClaim', action.claim)
      return
    }
    case 'update-claim':
      put(clusterState, 'PersistentVolumeClaim', action.claim)
      return
    case 'apply':
      put(clusterState, action.kind, action.draft)
      return
    case 'claim-port':
      put(clusterState, 'ConfigMap', stamped(routeDraft(owner, action.preferred ?? 20000, [])))
      return
    case 'leave-port':
      clusterState.objects.delete(keyOf('ConfigMap', `route-${action.port}`))
      return
    case 'delete':
      clusterState.objects.delete(keyOf(action.kind, action.name))
      return
    case 'ensure-roles': {
      const claim = get<AnyObject>(clusterState, 'PersistentVolumeClaim', childNames.claim(databaseId, 1))
      const data = clusterState.data.get(claim?.metadata.uid ?? '')
      const secret = get<AnyObject>(clusterState, 'Secret', childNames.credentials(databaseId))
      if (data) data.passwordVersion = secret?.metadata.uid
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
      clusterState.database = undefined
  }
}

type StoredStatefulSet = {
  spec: {
    replicas: number
    template: { metadata: { annotations: Record<string, string>; labels: Record<string, string> } }
  }
}

/** Gives a claim its volume, and the growth that the claim requests. */
function provide(clusterState: ClusterState, claim: PersistentVolumeClaim): void {
  const storage = claim.spec?.resources?.requests?.storage ?? '0'
  const isBound = claim.status?.phase === 'Bound'
  if (isBound && clusterState.growth !== 'answered') return
  const status =
    isBound || clusterState.provides(storage) ? { phase: 'Bound', capacity: { storage } } : { phase: 'Pending' }
  clusterState.objects.set(keyOf('PersistentVolumeClaim', claim.metadata.name), { ...claim, status })
}

/** The actions of the cluster, its nodes and the controller of Tasks between two passes. */
function advance(clusterState: ClusterState): void {
  clusterState.now += 1000
  const claim = get<PersistentVolumeClaim>(clusterState, 'PersistentVolumeClaim', childNames.claim(databaseId, 1))
  if (claim) provide(clusterState, claim)
  advancePod(clusterState)
  advanceTasks(clusterState)
}

function advancePod(clusterState: ClusterState): void {
  const set = get<StoredStatefulSet>(clusterState, 'StatefulSet', childNames.statefulSet(databaseId, 1))
  const podName = childNames.pod(databaseId, 1)
  const pod = keyOf('Pod', podName)
  if (set?.spec.replicas !== 1) clusterState.objects.delete(pod)
  const claim = get<PersistentVolumeClaim>(clusterState, 'PersistentVolumeClaim', childNames.claim(databaseId, 1))
  const isBound = claim?.status?.phase === 'Bound'
  const isUnscheduled = get<Pod>(clusterState, 'Pod', podName)?.status?.conditions !== undefined
  const map = get<{ data: Record<string, string> }>(clusterState, 'ConfigMap', childNames.configuration(databaseId, 1))
  const isMissing = !clusterState.objects.has(pod) || (isUnscheduled && isBound)
  if (set?.spec.replicas !== 1 || !isMissing || !claim?.metadata.uid || !map) return
  const { annotations, labels: objectLabels } = set.spec.template.metadata
  const uid = `pod-${++clusterState.minted}`
  const metadata = { name: podName, namespace: testNamespace, uid, annotations, labels: objectLabels }
  const status = isBound ? started(clusterState, claim.metadata.uid, map) : unscheduled
  clusterState.objects.set(pod, { metadata, status })
}

const unscheduled = { conditions: [{ type: 'PodScheduled', status: 'False' }] }

/** The result of a pod's start on a volume. The pod initialises the volume if it may. */
function started(clusterState: ClusterState, claimUid: string, map: { data: Record<string, string> }): object {
  const mayInitialise = JSON.parse(map.data[instanceFile] ?? '{}').initialise === true
  if (!clusterState.data.has(claimUid) && mayInitialise)
    clusterState.data.set(claimUid, { systemIdentifier: `system-${++clusterState.minted}`, passwordVersion: undefined })
  const running = { name: 'postgres', ready: true, restartCount: 0, image: '', imageID: '', state: { running: {} } }
  const terminated = { exitCode: exitCodes['volume-empty'], message: 'the volume is empty' }
  const refused = { ...running, name: 'prepare', ready: false, state: { terminated } }
  return clusterState.data.has(claimUid)
    ? { podIP: '10.0.0.1', containerStatuses: [running] }
    : { initContainerStatuses: [refused] }
}

function advanceTasks(clusterState: ClusterState): void {
  const { database } = clusterState
  const operation = database?.status?.operation
  if (database && operation && !clusterState.tasks.has(operation.taskId)) {
    const subject = { kind: 'database' as const, id: databaseId, name: 'one' }
    clusterState.tasks.set(operation.taskId, {
      apiVersion,
      kind: 'Task',
      metadata: { name: operation.taskId, labels: { [labels.id]: operation.taskId } },
      spec: { name: operation.name, subject },
    })
  }
  for (const [taskId, task] of clusterState.tasks) {
    if (database && operation?.taskId === taskId)
      task.status = progressOf(task.status, subjectOf(database), clusterState.now)
    else if (task.status?.finishedAt === undefined) {
      const outcome = outcomeOf(task, database && subjectOf(database), clusterState.now)
      if (outcome.state === 'over') task.status = { phase: outcome.error ? 'failed' : 'succeeded', finishedAt: 'now' }
    }
  }
}

/** Performs one pass and its consequences. Returns the plan and its input, for the invariants. */
export function round(clusterState: ClusterState): { observed: Observed; planned: Plan } | undefined {
  if (clusterState.database === undefined) return undefined
  const observed = observedIn(clusterState)
  const planned = plan(observed, clusterState.now, settings)
  for (const action of planned.actions) perform(clusterState, action)
  if (clusterState.database !== undefined && !planned.actions.some(action => action.do === 'identify'))
    clusterState.database = { ...clusterState.database, status: planned.status }
  advance(clusterState)
  return { observed, planned }
}
