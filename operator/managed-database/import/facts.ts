/** The observed state of an import: its pod, Secret and network policy, and whether the source Secret exists. */
import type { Cluster, NetworkPolicy, Pod, Secret } from '../../../cluster/index.ts'
import { childNames, importSourceComponent, labels, type ManagedDatabase } from '../../../crds/index.ts'
import { type ImportOutcome, type ImportProgress, parseProgress } from '../../../instance/import/contract.ts'
import type { Caches } from '../../caches.ts'
import { type Owner, ownerUidOf } from '../../objects/ownership.ts'

export const importContainer = 'import'
export const attemptAnnotation = 'espalier.dev/import-attempt'
export const importKinds = ['Pod', 'Secret', 'NetworkPolicy'] as const
/** Kubernetes truncates a termination message to this length. */
const longestMessage = 4_096

type ImportPod = {
  attempt: number
  isDeleting: boolean
  /** The result; undefined while the pod runs. */
  end: ImportOutcome | undefined
}

export type ImportFacts = {
  pod: ImportPod | undefined
  /** The number of the latest attempt that still has an object. */
  remaining: number | undefined
  /** Whether the database has no volume. An import must not overwrite an existing volume. */
  isFresh: boolean
  /** Whether the Secret that the spec names exists. */
  hasSource: boolean
  /** Whether the API created that Secret. If so, the operator deletes it after the import. */
  ownsSource: boolean
}

export const noImport: ImportFacts = {
  pod: undefined,
  remaining: undefined,
  isFresh: false,
  hasSource: false,
  ownsSource: false,
}

/** Whether an object was created for an import of this database. */
export const isOfImport = (owner: Pick<Owner, 'uid'>, object: Pod | Secret | NetworkPolicy): boolean =>
  ownerUidOf(object) === owner.uid && object.metadata.labels?.[labels.component] === 'import'

export async function observeImport(
  { caches, cluster }: { caches: Caches; cluster: Cluster },
  { metadata, spec, status }: ManagedDatabase,
  owner: Owner | undefined,
): Promise<ImportFacts> {
  if (spec.import === undefined || owner === undefined) return noImport
  const { namespace = '' } = metadata
  const key = { namespace, name: childNames.import(owner.id) }
  const own = <T extends Pod | Secret | NetworkPolicy>(object: T | undefined): T | undefined =>
    object !== undefined && isOfImport(owner, object) ? object : undefined
  // The cache may lag behind the status, so the cluster is read before an attempt counts as lost.
  const isMissingInCache = status?.import?.phase === 'running' && caches.pods.get(key) === undefined
  const pod = own(isMissingInCache ? await cluster.get('Pod', key) : caches.pods.get(key))
  const secret = own(
    caches.secrets
      .within(namespace)
      .byIndex('owner', owner.uid)
      .find(({ metadata: its }) => its.name === key.name),
  )
  const policy = own(caches.networkPolicies.get(key))
  const hasEnded = status?.import?.phase === 'completed' || status?.import?.phase === 'failed'
  const named = { namespace, name: spec.import.secretName }
  const source = hasEnded
    ? caches.secrets
        .within(namespace)
        .byIndex('database', owner.id)
        .find(({ metadata: its }) => its.name === named.name)
    : await cluster.get('Secret', named)
  return {
    pod: pod && {
      attempt: attemptOf(pod),
      isDeleting: pod.metadata.deletionTimestamp !== undefined,
      end: endOf(pod),
    },
    remaining: [pod, secret, policy]
      .flatMap(object => (object === undefined ? [] : [attemptOf(object)]))
      .sort((a, b) => b - a)[0],
    isFresh: status?.import === undefined && (await hasNoClaim(cluster, namespace, owner.id)),
    hasSource: source !== undefined && source.metadata.deletionTimestamp === undefined,
    ownsSource:
      source?.metadata.labels?.[labels.component] === importSourceComponent &&
      source.metadata.labels[labels.database] === owner.id &&
      source.metadata.deletionTimestamp === undefined,
  }
}

/** Reads the cluster: a cache may lack an existing claim. */
async function hasNoClaim(cluster: Cluster, namespace: string, id: string): Promise<boolean> {
  const { items } = await cluster.list('PersistentVolumeClaim', { namespace, labels: { [labels.database]: id } })
  return items.length === 0
}

export const attemptOf = ({ metadata }: Pod | Secret | NetworkPolicy): number =>
  Number(metadata.annotations?.[attemptAnnotation] ?? 0)

function endOf({ status }: Pod): ImportOutcome | undefined {
  if (status?.phase !== 'Succeeded' && status?.phase !== 'Failed') return undefined
  const ended = status.containerStatuses?.find(({ name }) => name === importContainer)?.state?.terminated
  const outcome = parseOutcome((ended?.message ?? '').slice(0, longestMessage))
  if (outcome !== undefined && ('fault' in outcome || ended?.exitCode === 0)) return outcome
  const why = [status.reason, ended?.reason, ended?.exitCode === undefined ? '' : `exit code ${ended.exitCode}`]
  return {
    fault: 'Interrupted',
    message: `the import pod ended without a result: ${why.filter(text => text).join(', ')}`,
  }
}

function parseOutcome(text: string): ImportOutcome | undefined {
  try {
    const outcome: unknown = JSON.parse(text)
    if (typeof outcome !== 'object' || outcome === null) return undefined
    return 'result' in outcome || 'fault' in outcome ? (outcome as ImportOutcome) : undefined
  } catch {
    return undefined
  }
}

/** Parses the progress that a Postgres session of the import reports. */
export const progressOf = (shown: string | undefined): ImportProgress | undefined =>
  shown === undefined ? undefined : parseProgress(shown)
