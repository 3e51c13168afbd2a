/** Security contexts of the pod and its containers. They meet the "restricted" Pod Security Standard. */
import type { Json, StatefulSet } from '../../../cluster/index.ts'

type PodSpec = NonNullable<NonNullable<StatefulSet['spec']>['template']['spec']>

/** The image's user id. Any id except root's works. */
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
