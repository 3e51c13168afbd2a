/** Trims cached objects of which only some fields are read. */
import type { Pod } from '../cluster/index.ts'
import { withoutManagedFields } from '../cluster/informer/index.ts'
import { annotations, type Backup } from '../crds/index.ts'
import { imageEdits } from './member/pod/image-edits.ts'
import { conditionOf } from './objects/conditions.ts'
import { databaseReplaced } from './objects/named-database.ts'

/** Of a pod only its identity and its state, and who changed its images; its specification is its StatefulSet's. */
export function trimPod(pod: Pod): Pod {
  const { spec, ...rest } = withoutManagedFields(pod)
  const edits = imageEdits(pod.metadata.managedFields)
  const edited = edits.length === 0 ? rest : { ...rest, metadata: { ...rest.metadata, managedFields: edits } }
  return spec?.nodeName === undefined ? edited : { ...edited, spec: { containers: [], nodeName: spec.nodeName } }
}

/**
 * Of a durable one: its location in the archive, the WAL that it needs, and the fields that a restore from it reads.
 */
function archivedIn(status: NonNullable<Backup['status']>): Partial<typeof status> {
  const { incarnation, startLsn, endLsn, timeline, cutAt, systemIdentifier, sizeBytes } = status
  return incarnation === undefined
    ? {}
    : { incarnation, startLsn, endLsn, timeline, cutAt, systemIdentifier, sizeBytes }
}

/**
 * Of an ended backup whose Task has ended, the fields for retention and deletion. One that has not ended is cached
 * completely, since it is written again; code that writes an ended one reads it from the cluster first.
 */
export function trimBackup(backup: Backup): Backup {
  const { apiVersion, kind, metadata, spec, status } = backup
  const isBeingVerified = status?.verification === 'pending'
  if (status?.finishedAt === undefined || status.taskId !== undefined || isBeingVerified)
    return withoutManagedFields(backup)
  const requested = metadata.annotations?.[annotations.verify]
  const replaced = conditionOf(status, databaseReplaced)
  const { name, namespace, uid, resourceVersion, creationTimestamp, deletionTimestamp, labels, finalizers } = metadata
  return {
    apiVersion,
    kind,
    metadata: {
      ...{ name, namespace, uid, resourceVersion, creationTimestamp, labels, finalizers },
      ...(deletionTimestamp && { deletionTimestamp }),
      ...(requested === undefined ? {} : { annotations: { [annotations.verify]: requested } }),
    },
    spec,
    status: {
      ...{ phase: status.phase, finishedAt: status.finishedAt, error: status.error },
      ...{ verification: status.verification, verificationResult: status.verificationResult },
      ...archivedIn(status),
      ...(replaced === undefined ? {} : { conditions: [replaced] }),
    },
  }
}
