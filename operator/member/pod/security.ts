/** What the "restricted" Pod Security Standard asks of a pod and its containers, and nothing beyond a pod's own files. */
import type { Json, StatefulSet } from '../../../cluster/index.ts'

type PodSpec = NonNullable<NonNullable<StatefulSet['spec']>['template']['spec']>

/** The numeric user of our image; any would do, as long as it is not root. */
const postgresUser = 10001

export const podSecurityContext: Json<NonNullable<PodSpec['securityContext']>> = {
  runAsNonRoot: true,
  runAsUser: postgresUser,
  runAsGroup: postgresUser,
  fsGroup: postgresUser,
  fsGroupChangePolicy: 'OnRootMismatch',
  seccompProfile: { type: 'RuntimeDefault' },
}

export const securityContext: Json<NonNullable<PodSpec['containers'][number]['securityContext']>> = {
  allowPrivilegeEscalation: false,
  capabilities: { drop: ['ALL'] },
  readOnlyRootFilesystem: true,
  runAsNonRoot: true,
}
