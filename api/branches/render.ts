/** Renders a Branch as the API returns it. */
import type { Kinds } from '../../cluster/index.ts'
import { branchHostLabel, branchPhase, presentTarget } from '../../crds/index.ts'
import { idOf } from '../caches.ts'
import { renderAllowlist } from '../databases/allowlist.ts'
import { renderAttention } from '../render/attention.ts'
import { createdTime } from '../render/created-at.ts'
import { shownDomain, shownHostName } from '../render/domain.ts'
import { apiTime } from '../render/time.ts'
import { updatedAt } from '../render/updated-at.ts'
import { renderServices } from '../services/render.ts'
import type { BranchShape } from './schema.ts'

type Branch = Kinds['Branch']

export function renderBranch(branch: Branch, region: Kinds['Region'] | undefined): BranchShape {
  const { metadata, spec, status } = branch
  // If kubectl deleted the branch, it has only a deletionTimestamp.
  const requestedAt = spec.deletionRequestedAt ?? metadata.deletionTimestamp
  const attention = renderAttention(branchPhase(branch), status?.conditions)
  const label = branchHostLabel(metadata.name, idOf(branch) ?? '')
  const domain = shownHostName({ assigned: status?.domain, label }, region)
  return {
    id: idOf(branch) ?? '',
    database_id: spec.databaseId,
    depth: spec.depth,
    name: metadata.name,
    region: spec.region,
    size: spec.size.name,
    status: branchPhase(branch),
    pg_version: spec.pgVersion,
    created_at: createdTime(branch),
    updated_at: updatedAt(branch, [status?.domain === undefined ? region && shownDomain(region).since : undefined]),
    ip_allowlist: renderAllowlist(spec.ipAllowlist),
    ...(attention === undefined ? {} : { attention }),
    ...(status?.connectableAt === undefined ? {} : { connectable_at: apiTime(status.connectableAt) }),
    ...(requestedAt === undefined ? {} : { deletion_requested_at: apiTime(requestedAt) }),
    ...(spec.sourceBranch === undefined ? {} : { parent_branch_id: spec.sourceBranch.id }),
    ...(spec.expiresAt === undefined ? {} : { expires_at: apiTime(spec.expiresAt) }),
    ...(status?.source?.lsn === undefined ? {} : { lsn: status.source.lsn }),
    display_name: spec.displayName ?? null,
    ...(domain === undefined ? {} : { domain }),
    options: spec.options,
    ...(status?.endpoint === undefined ? {} : { port: status.endpoint.port }),
    ...renderTarget(branch),
    services: renderServices(spec.services, { statuses: status?.services, domain }),
  }
}

/** The target of the branch's data. */
function renderTarget(branch: Branch): Pick<BranchShape, 'target_time' | 'target_lsn' | 'target_name'> {
  const { time, lsn, pointName } = presentTarget(branch) ?? {}
  return {
    ...(time === undefined ? {} : { target_time: time }),
    ...(lsn === undefined ? {} : { target_lsn: lsn }),
    ...(pointName === undefined ? {} : { target_name: pointName }),
  }
}
