/** From a workload's template to its pods: names, owners, and the revision that tells an old pod from a new one. Pure. */
// @ts-nocheck

import { createHash } from 'node:crypto'
import type { Deployment, Draft, Job, Pod, StatefulSet } from '../../../cluster/index.ts'
import { isRecord } from '../../../values/record.ts'

export type Workload = StatefulSet | Deployment | Job
type PodTemplate = NonNullable<StatefulSet['spec']>['template']

/** Kept on every pod until its processes are gone, so that a pod that is gone runs nowhere any more. */
export const podFinalizer = 'espalier.dev/processes'
/** Kubernetes' own label for the revision of a pod. */
export const revisionLabel = 'controller-revision-hash'

/** What a plan wants done, in this order. */
export type PodAction = { do: 'create'; pod: Draft<'Pod'> } | { do: 'delete'; pod: Pod }

/** JSON with the keys of every object in order, so that equal values read alike. */
function canonical(value: unknown): string {
  return JSON.stringify(value, (_, inner: unknown) =>
    isRecord(inner) ? Object.fromEntries(Object.entries(inner).sort(([a], [b]) => (a < b ? -1 : 1))) : inner,
  )
}

/** Ten characters that change whenever the template does. */
export const revisionOf = (template: PodTemplate | undefined): string =>
  createHash('sha256')
    .update(canonical(template ?? {}))
    .digest('hex')
    .slice(0, 10)

export const isTerminating = (pod: Pod): boolean => pod.metadata.deletionTimestamp !== undefined
export const isFinished = (pod: Pod): boolean => pod.status?.phase === 'Succeeded' || pod.status?.phase === 'Failed'
export const isReady = (pod: Pod): boolean =>
  !isTerminating(pod) &&
  pod.status?.conditions?.some(condition => condition.type === 'Ready' && condition.status === 'True') === true

/** Whether the pod is this very workload's, not that of an earlier one of the same name. */
export const isOwnedBy = (pod: Pod, owner: Workload): boolean =>
  pod.metadata.ownerReferences?.some(({ controller, uid }) => controller === true && uid === owner.metadata.uid) ===
  true

type PodOptions = { name: string; nodeName: string; labels?: Record<string, string> }

export function podFrom(owner: Workload, { name, nodeName, labels }: PodOptions): Draft<'Pod'> {
  const template = owner.spec?.template
  const { namespace, uid = '' } = owner.metadata
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: {
      name,
      ...(namespace !== undefined && { namespace }),
      labels: { ...template?.metadata?.labels, ...labels },
      ...(template?.metadata?.annotations && { annotations: template.metadata.annotations }),
      finalizers: [podFinalizer],
      ownerReferences: [
        {
          apiVersion: owner.apiVersion,
          kind: owner.kind,
          name: owner.metadata.name,
          uid,
          controller: true,
          blockOwnerDeletion: true,
        },
      ],
    },
    spec: { containers: [], ...template?.spec, nodeName },
  }
}

const suffixLetters = 'bcdfghjklmnpqrstvwxz2456789'

/** Five characters for the end of a name, as Kubernetes generates them. */
export const randomSuffix = (random: () => number): string =>
  Array.from({ length: 5 }, () => suffixLetters[Math.floor(random() * suffixLetters.length)]).join('')
