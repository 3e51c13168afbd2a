/** The status of a tenant. Pure. */
import { type Tenant, tenantNamespace } from '../../crds/index.ts'
import { timestamp } from '../../values/time.ts'
import type { Finding } from '../objects/conditions.ts'
import { withSince } from '../objects/since.ts'

/** `LimitsEnforced` exists only if the limits are not enforced. */
export type Findings = { Ready: Finding; LimitsEnforced?: Finding }

export function tenantStatus(tenant: Tenant, findings: Findings, now: number): NonNullable<Tenant['status']> {
  const { metadata, spec, status } = tenant
  const conditions = Object.entries(findings).map(([type, finding]) => {
    const before = status?.conditions?.find(condition => condition.type === type)
    const isSame = before?.status === finding.status
    return {
      type,
      ...finding,
      observedGeneration: metadata.generation ?? 0,
      lastTransitionTime: isSame ? before.lastTransitionTime : timestamp(now),
    }
  })
  return {
    phase: findings.Ready.status === 'True' ? 'ready' : 'pending',
    namespace: tenantNamespace(spec.tenantId),
    branches: withSince(status?.branches, branchLimit(tenant), now),
    observedGeneration: metadata.generation ?? 0,
    conditions,
  }
}

/** The limit that users see. */
const branchLimit = ({ spec: { limits } }: Tenant): { limit?: number } =>
  limits.branchesPerDatabase === undefined ? {} : { limit: limits.branchesPerDatabase }
