/**
 * What the caches keep of an object. Ten thousand databases are a hundred thousand objects, most of whose text is the same
 * in all of them.
 */
// @ts-nocheck

import type { AnyObject, Pod } from '../cluster/index.ts'
import { withoutManagedFields } from '../cluster/informer/index.ts'
import type { Backup } from '../crds/index.ts'

/** Of a pod only its identity and its state; its specification is its StatefulSet's. */
export function slimPod(pod: Pod): Pod {
  const { spec, ...rest } = withoutManagedFields(pod)
  return spec?.nodeName === undefined ? rest : { ...rest, spec: { containers: [], nodeName: spec.nodeName } }
}

/**
 * Of a backup that has ended, and whose Task has, what its retention and its deletion go by. One that has not is kept
 * whole, since it is written again; whoever writes one that has reads it first.
 */
export function slimBackup(backup: Backup): Backup {
  const { apiVersion, kind, metadata, spec, status } = backup
  if (status?.finishedAt === undefined || status.taskId !== undefined) return withoutManagedFields(backup)
  const { name, namespace, uid, resourceVersion, creationTimestamp, deletionTimestamp, labels, finalizers } = metadata
  return {
    apiVersion,
    kind,
    metadata: {
      ...{ name, namespace, uid, resourceVersion, creationTimestamp, labels, finalizers },
      ...(deletionTimestamp && { deletionTimestamp }),
    },
    spec,
    status: { phase: status.phase, finishedAt: status.finishedAt, error: status.error },
  }
}

/** Texts that are another one in each object; to look them up would be in vain. */
const unlike = new Set(['uid', 'resourceVersion', 'creationTimestamp', 'lastTransitionTime', 'startedAt', 'podIP'])
/** Parts of objects that are mostly the same in all of a kind. */
const alike = new Set([
  ...['containers', 'initContainers', 'securityContext', 'tolerations', 'affinity', 'topologySpreadConstraints'],
  ...['ingress', 'egress', 'ports', 'policyTypes', 'ipFamilies', 'accessModes', 'resources', 'updateStrategy'],
  ...['persistentVolumeClaimRetentionPolicy', 'finalizers', 'subject', 'ipAllowlist', 'backup', 'deletion'],
])
const longestText = 4_096
/** Beyond these, what comes is too various for sharing to pay: the table begins anew. */
const mostTexts = 100_000
const mostParts = 20_000

type Sharing = {
  /** The same object, what it has in common with others replaced by theirs. What is frozen stays as it is. */
  share<T extends AnyObject>(object: T): T
}

export function createSharing(): Sharing {
  const texts = new Map<string, string>()
  const parts = new Map<string, object>()

  const textOf = (text: string): string => {
    if (text.length > longestText) return text
    const known = texts.get(text)
    if (known !== undefined) return known
    if (texts.size >= mostTexts) texts.clear()
    texts.set(text, text)
    return text
  }

  const partOf = (part: object): object => {
    const text = JSON.stringify(part)
    const known = parts.get(text)
    if (known !== undefined) return known
    if (parts.size >= mostParts) parts.clear()
    parts.set(text, part)
    return part
  }

  const shareIn = (holder: Record<string, unknown>): void => {
    // The one-machine store's own, which are shared already.
    if (Object.isFrozen(holder)) return
    for (const [key, value] of Object.entries(holder)) {
      if (typeof value === 'string') {
        if (!unlike.has(key)) holder[key] = textOf(value)
      } else if (typeof value === 'object' && value !== null) {
        if (alike.has(key)) holder[key] = partOf(value)
        // A list can be written to by its places as a record by its names.
        else shareIn(value as Record<string, unknown>)
      }
    }
  }

  return {
    share: object => {
      shareIn(object as unknown as Record<string, unknown>)
      return object
    },
  }
}
