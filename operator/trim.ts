/** Trims cached objects if only some of their fields are read. */
import type { Pod } from '../cluster/index.ts'
import { withoutManagedFields } from '../cluster/informer/index.ts'
import { annotations, type Backup } from '../crds/index.ts'
import { imageEdits } from './member/pod/image-edits.ts'
import { conditionOf } from './objects/conditions.ts'
import { databaseReplaced } from './objects/named-database.ts'

/**
 * The cached part of a pod: its identity, its state, and which managers changed its images. Its StatefulSet has its
 * specification.
 */
export function trimPod(pod: Pod): Pod {
  const { spec, ...rest } = withoutManagedFields(pod)
  const edits = imageEdits(pod.metadata.managedFields)
  const edited = edits.length === 0 ? rest : { ...rest, metadata: { ...rest.metadata, managedFields: edits } }
  return spec?.nodeName === undefined ? edited : { ...edited, spec: { containers: [], nodeName: spec.nodeName } }
}

/**
 * For a durable backup: its location in the archive, the WAL that it needs, and the fields that a restore from it
 * reads.
 */
function archivedIn(status: NonNullable<Backup['status']>): Partial<typeof status> {
  const { incarnation, startLsn, endLsn, timeline, cutAt, systemIdentifier, sizeBytes } = status
  return incarnation === undefined
    ? {}
    : { incarnation, startLsn, endLsn, timeline, cutAt, systemIdentifier, sizeBytes }
}

/**
 * Of an ended backup whose Task has ended, the cache has only the fields for retention and deletion. Code that writes
 * such a backup must first read it from the cluster. An open backup is cached completely, because the operator writes
 * it again.
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
