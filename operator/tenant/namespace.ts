/** The namespace of a tenant. Only pods that meet the "restricted" standard may run there. */
import type { Draft } from '../../cluster/index.ts'
import { labels, managedByEspalier, type Tenant, tenantHash, tenantNamespace } from '../../crds/index.ts'
import { stamped } from '../objects/up-to-date.ts'
import { copiesNote } from './pull-secrets.ts'

export function namespaceDraft(
  { spec: { tenantId } }: Pick<Tenant, 'spec'>,
  pullSecrets: readonly string[] = [],
): Draft<'Namespace'> {
  return stamped({
    apiVersion: 'v1',
    kind: 'Namespace',
    metadata: {
      name: tenantNamespace(tenantId),
      ...copiesNote(pullSecrets),
      labels: {
        [labels.managedBy]: managedByEspalier,
        [labels.tenant]: tenantHash(tenantId),
        'pod-security.kubernetes.io/enforce': 'restricted',
        'pod-security.kubernetes.io/audit': 'restricted',
        'pod-security.kubernetes.io/warn': 'restricted',
      },
    },
  })
}
