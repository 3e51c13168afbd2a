/** Fields that the "restricted" Pod Security Standard requires of a pod and its containers, and no token. */
import type { Json, StatefulSet } from '../../../cluster/index.ts'

type PodSpec = NonNullable<NonNullable<StatefulSet['spec']>['template']['spec']>

/** The numeric user of the image; any except root works. */
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
