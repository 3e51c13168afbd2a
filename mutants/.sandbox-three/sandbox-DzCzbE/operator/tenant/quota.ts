/**
 * A tenant's limits as a ResourceQuota in its namespace, so that they bind kubectl as they bind the API. It has a name and
 * labels of its own: whatever other quotas there are, are somebody else's. Deleted databases count until they are gone,
 * as the API counts them; branches do not stand in it, since their tombstones would count for 30 days.
 */
// @ts-nocheck

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

/** Whether a quota of our name is one that we made. */
export const isOurs = ({ metadata }: ResourceQuota): boolean =>
  metadata.labels?.[labels.managedBy] === managedByEspalier && metadata.labels[labels.tenant] !== undefined
