/** The final state of a cluster, without values that differ in each run. Used to compare two runs. */
import type { AnyObject, Cluster, ConfigMap, KindName, StatefulSet } from '../../cluster/index.ts'
import { canonicalJson, deletedDatabaseComponent, labels } from '../../crds/index.ts'
import { templateAnnotation } from './fake-deployments.ts'

const kinds: KindName[] = [
  'ManagedDatabase',
  'Branch',
  'Task',
  'StatefulSet',
  'Deployment',
  'Pod',
  'Service',
  'ConfigMap',
  'Secret',
  'PersistentVolumeClaim',
  'Backup',
  'Restore',
  'VolumeSnapshot',
]

/** Numbers, times and secrets that differ in each run. */
const ownOfEachRun = new Set([
  'uid',
  'espalier.dev/first-uid',
  'resourceVersion',
  'creationTimestamp',
  'generation',
  'observedGeneration',
  'managedFields',
  'lastTransitionTime',
  'since',
  'startedAt',
  'updatedAt',
  'finishedAt',
  'endedAt',
  'verifiedAt',
  'fencedAt',
  'switchedAt',
  'replacedAt',
  'restoredAt',
  'keptUntil',
  'restoreUid',
  'backupUid',
  'deadlineAt',
  'duration',
  'creationDuration',
  'connectableAt',
  'deletedAt',
  'archived',
  'archivedAt',
  'through',
  'recordedAt',
  'messages',
  'systemIdentifier',
  'cutAt',
  'creationTime',
  'volumeName',
  'podIP',
  'data',
  'espalier.dev/created-at',
  'espalier.dev/volume',
  'espalier.dev/draft',
  'espalier.dev/issued',
  'espalier.dev/trust',
  'espalier.dev/loaded',
  'espalier.dev/owner-uid',
  'espalier.dev/cut-of',
  'espalier.dev/switched-at',
  templateAnnotation,
])

function normalised(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(normalised)
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(
    Object.entries(value).flatMap(([key, inner]) => (ownOfEachRun.has(key) ? [] : [[key, normalised(inner)]])),
  )
}

/** The status of a StatefulSet is written some time after its change. Only a slow kubelet's pods have finalizers. */
function seenOf(object: AnyObject): unknown {
  if (object.kind === 'Pod') return { ...object, metadata: { ...object.metadata, finalizers: undefined } }
  // The progress of a failed backup is beside the reason. Nothing depends on it.
  if (object.kind === 'Backup' && object.status?.phase === 'failed')
    return { ...object, status: { phase: 'failed', error: object.status.error } }
  if (object.kind !== 'StatefulSet') return object
  const { status: _, ...rest } = object as StatefulSet
  return rest
}

/** Compares the data of ConfigMaps completely, and only the keys of Secrets. */
function contentOf(object: AnyObject): unknown {
  if (object.metadata.labels?.[labels.component] === deletedDatabaseComponent)
    return normalised(Object.values((object as ConfigMap).data ?? {}).map(text => JSON.parse(text)))
  if (object.kind === 'ConfigMap') return object.data
  return object.kind === 'Secret' ? Object.keys(object.data ?? {}).sort() : undefined
}

/**
 * Ids that differ in each run: Task ids that the operator derives from a database's uid, ids that it creates, and names
 * derived from a restore's uid.
 */
const derivedIds =
  /[0-9a-f]{8}-[0-9a-f]{4}-[78][0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}|bkp-[0-9a-f]{32}|[0-9a-f]{8}(?=-(?:pre|post)restore)/g

/** Digests of services, whose configuration contains the run's passwords. */
const contentDigests = /(-(?:mcp|rest|rag)-|"espalier\.dev\/configuration":")[0-9a-f]{10}(?![0-9a-f])/g

/** One text per object, in order. */
export async function endState(cluster: Cluster): Promise<string[]> {
  const lists = await Promise.all(kinds.map(kind => cluster.list(kind)))
  return lists
    .flatMap(({ items }) => items as AnyObject[])
    .map(object => canonicalJson([object.kind, object.metadata.name, normalised(seenOf(object)), contentOf(object)]))
    .map(text => text.replaceAll(derivedIds, 'derived').replaceAll(contentDigests, '$1digest'))
    .sort()
}
