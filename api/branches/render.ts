/** A Branch as the API gives it. */
import type { Kinds } from '../../cluster/index.ts'
import { branchHostLabel, branchPhase } from '../../crds/index.ts'
import { idOf } from '../caches.ts'
import { renderAllowlist } from '../databases/allowlist.ts'
import { createdTime } from '../render/created-at.ts'
import { shownDomain, shownHostName } from '../render/domain.ts'
import { apiTime } from '../render/time.ts'
import { updatedAt } from '../render/updated-at.ts'
import { renderServices } from '../services/render.ts'
import type { BranchShape } from './schema.ts'

type Branch = Kinds['Branch']

export function renderBranch(branch: Branch, region: Kinds['Region'] | undefined): BranchShape {
  const { metadata, spec, status } = branch
  // One that is deleted by kubectl says so by itself.
  const requestedAt = spec.deletionRequestedAt ?? metadata.deletionTimestamp
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
    ...(status?.connectableAt === undefined ? {} : { connectable_at: apiTime(status.connectableAt) }),
    ...(requestedAt === undefined ? {} : { deletion_requested_at: apiTime(requestedAt) }),
    ...(spec.sourceBranch === undefined ? {} : { parent_branch_id: spec.sourceBranch.id }),
    ...(spec.expiresAt === undefined ? {} : { expires_at: apiTime(spec.expiresAt) }),
    ...(status?.source === undefined ? {} : { lsn: status.source.lsn }),
    display_name: spec.displayName ?? null,
    ...(domain === undefined ? {} : { domain }),
    options: spec.options,
    ...(status?.endpoint === undefined ? {} : { port: status.endpoint.port }),
    services: renderServices(spec.services, { statuses: status?.services, domain }),
  }
}
