/** A Branch as the API gives it. */
// @ts-nocheck

import type { Kinds } from '../../cluster/index.ts'
import { idOf } from '../caches.ts'
import { renderAllowlist } from '../databases/allowlist.ts'
import { createdTime } from '../render/created-at.ts'
import { apiTime } from '../render/time.ts'
import { updatedAt } from '../render/updated-at.ts'
import { renderServices } from '../services/render.ts'
import type { BranchShape } from './schema.ts'

type Branch = Kinds['Branch']

/** What a client sees: from the moment its deletion is requested a branch is going. */
export function branchPhase({ metadata, spec, status }: Branch): BranchShape['status'] {
  if (status?.phase === 'deleted') return 'deleted'
  if (spec.deletionRequestedAt !== undefined || metadata.deletionTimestamp !== undefined) return 'deleting'
  return status?.phase ?? 'creating'
}

export function renderBranch(branch: Branch, region: Kinds['Region'] | undefined): BranchShape {
  const { metadata, spec, status } = branch
  // A branch's name is its host label.
  const domain = status?.domain ?? (region && `${metadata.name}.${region.spec.domain}`)
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
    updated_at: updatedAt(branch),
    ip_allowlist: renderAllowlist(spec.ipAllowlist),
    ...(status?.connectableAt === undefined ? {} : { connectable_at: apiTime(status.connectableAt) }),
    ...(spec.deletionRequestedAt === undefined ? {} : { deletion_requested_at: apiTime(spec.deletionRequestedAt) }),
    display_name: spec.displayName ?? null,
    ...(domain === undefined ? {} : { domain }),
    options: spec.options,
    ...(status?.endpoint === undefined ? {} : { port: status.endpoint.port }),
    services: renderServices(spec.services, status?.services, domain),
  }
}
