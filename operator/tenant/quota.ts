/**
 * A tenant's limits as a ResourceQuota in its namespace, so that they also limit kubectl. Its name and labels are
 * reserved. Other quotas belong to other owners. Deleted databases count until they no longer exist, as in the API. The
 * quota does not contain branches, because records of deleted branches would count for 30 days.
 */
import type { Draft, ResourceQuota } from '../../cluster/index.ts'
import {
  databasesQuota,
  labels,
  managedByEspalier,
  type Tenant,
  tenantHash,
  tenantNamespace,
} from '../../crds/index.ts'
import { canonicalQuantity } from '../../values/quantity.ts'
import { stamped } from '../objects/up-to-date.ts'

export function quotaDraft({ spec: { tenantId, limits } }: Pick<Tenant, 'spec'>): Draft<'ResourceQuota'> {
  return stamped({
    apiVersion: 'v1',
    kind: 'ResourceQuota',
    metadata: {
      name: databasesQuota.name,
      namespace: tenantNamespace(tenantId),
      labels: { [labels.managedBy]: managedByEspalier, [labels.tenant]: tenantHash(tenantId) },
    },
    spec: { hard: { [databasesQuota.counted]: canonicalQuantity(String(limits.databases)) } },
  })
}

/** Whether the operator created a quota with this name. */
export const isManaged = ({ metadata }: ResourceQuota): boolean =>
  metadata.labels?.[labels.managedBy] === managedByEspalier && metadata.labels[labels.tenant] !== undefined
