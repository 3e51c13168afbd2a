/** What the caches keep of those objects that nobody reads whole. */
import type { Pod } from '../cluster/index.ts'
import { withoutManagedFields } from '../cluster/informer/index.ts'
import { annotations, type Backup } from '../crds/index.ts'
import { imageEdits } from './member/pod/image-edits.ts'
import { conditionOf } from './objects/conditions.ts'
import { databaseReplaced } from './objects/named-database.ts'

/**
 * Of a pod only its identity and its state, and who changed an image of its; its specification is its StatefulSet's.
 */
export function slimPod(pod: Pod): Pod {
  const { spec, ...rest } = withoutManagedFields(pod)
  const edits = imageEdits(pod.metadata.managedFields)
  const edited = edits.length === 0 ? rest : { ...rest, metadata: { ...rest.metadata, managedFields: edits } }
  return spec?.nodeName === undefined ? edited : { ...edited, spec: { containers: [], nodeName: spec.nodeName } }
}

/**
 * Of a backup that has ended, and whose Task has, what its retention and its deletion go by. One that has not is kept
 * whole, since it is written again; whoever writes one that has reads it first.
 */
export function slimBackup(backup: Backup): Backup {
  const { apiVersion, kind, metadata, spec, status } = backup
  const isBeingVerified = status?.verification === 'pending'
  if (status?.finishedAt === undefined || status.taskId !== undefined || isBeingVerified)
    return withoutManagedFields(backup)
  const asked = metadata.annotations?.[annotations.verify]
  const replaced = conditionOf(status, databaseReplaced)
  const { name, namespace, uid, resourceVersion, creationTimestamp, deletionTimestamp, labels, finalizers } = metadata
  return {
    apiVersion,
    kind,
    metadata: {
      ...{ name, namespace, uid, resourceVersion, creationTimestamp, labels, finalizers },
      ...(deletionTimestamp && { deletionTimestamp }),
      ...(asked === undefined ? {} : { annotations: { [annotations.verify]: asked } }),
    },
    spec,
    status: {
      ...{ phase: status.phase, finishedAt: status.finishedAt, error: status.error },
      ...{ verification: status.verification, verificationResult: status.verificationResult },
      ...(replaced === undefined ? {} : { conditions: [replaced] }),
    },
  }
}
