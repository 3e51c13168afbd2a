/** Creates a workload's pods from its template: names, owners, and the revision that identifies old pods. Pure. */
import { createHash } from 'node:crypto'
import type { Deployment, Draft, Job, Pod, StatefulSet } from '../../../cluster/index.ts'
import { isRecord } from '../../../values/record.ts'

export type Workload = StatefulSet | Deployment | Job
type PodTemplate = NonNullable<StatefulSet['spec']>['template']

/** Every pod has this finalizer until its processes have ended, so that a deleted pod no longer runs. */
export const podFinalizer = 'espalier.dev/processes'
/** Kubernetes' own label for the revision of a pod. */
export const revisionLabel = 'controller-revision-hash'

/** Planned actions, in this order. */
export type PodAction = { do: 'create'; pod: Draft<'Pod'> } | { do: 'delete'; pod: Pod }

/** JSON with sorted keys, so that equal values have equal text. */
function canonical(value: unknown): string {
  return JSON.stringify(value, (_, inner: unknown) =>
    isRecord(inner) ? Object.fromEntries(Object.entries(inner).sort(([a], [b]) => (a < b ? -1 : 1))) : inner,
  )
}

/** Ten characters that change with every change of the template. */
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

/** Whether the pod belongs to this workload, not to an earlier one of the same name. */
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
