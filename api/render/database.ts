/** A ManagedDatabase as the API gives it (seed 000), and its text, made once per version of what it is made from. */
import type { Kinds } from '../../cluster/index.ts'
import { hostLabel, visiblePhase } from '../../crds/index.ts'
import { byDatabase, type Caches, idOf } from '../caches.ts'
import { renderAllowlist } from '../shapes/allowlist.ts'
import type { Connection } from '../shapes/common.ts'
import type { DatabaseShape } from '../shapes/database.ts'
import { renderServices } from './services.ts'
import { updatedAt } from './updated-at.ts'

type ManagedDatabase = Kinds['ManagedDatabase']

/** What stands outside the object itself. */
export type Surroundings = {
  region: Kinds['Region'] | undefined
  tenant: Kinds['Tenant'] | undefined
  branchCount: number
}

/** `<host label>.<domain of the region>`; undefined where the region is gone. */
export const domainOf = (name: string, id: string, region: Kinds['Region'] | undefined): string | undefined =>
  region && `${hostLabel(name, id)}.${region.spec.domain}`

/** Everything but `connection`, which only single reads have. The object must have an id. */
export function renderDatabase(
  database: ManagedDatabase,
  { region, tenant, branchCount }: Surroundings,
): DatabaseShape {
  const { metadata, spec, status } = database
  const id = idOf(database) ?? ''
  const domain = status?.domain ?? domainOf(metadata.name, id, region)
  return {
    id,
    region: spec.region,
    name: metadata.name,
    size: spec.size.name,
    status: visiblePhase(database),
    created_at: metadata.creationTimestamp ?? '',
    updated_at: updatedAt(database),
    ip_allowlist: renderAllowlist(spec.ipAllowlist),
    branch_count: branchCount,
    branch_limit: tenant?.spec.limits.branchesPerDatabase ?? null,
    deletion_protection: spec.deletionProtection,
    display_name: spec.displayName ?? null,
    ...(domain === undefined ? {} : { domain }),
    options: spec.options,
    pg_version: spec.pgVersion,
    ...(status?.endpoint === undefined ? {} : { port: status.endpoint.port }),
    services: renderServices(spec.services, status?.services, domain),
    ...(status?.storageUsedBytes === undefined ? {} : { storage_used: status.storageUsedBytes }),
  }
}

/** The JSON of a database without `connection`. */
export type DatabaseText = (database: ManagedDatabase, tenant: Kinds['Tenant'] | undefined) => string

/** Keeps the text of each object as long as the object; it is made again when its surroundings have changed. */
export function createDatabaseText(caches: Caches): DatabaseText {
  const known = new WeakMap<ManagedDatabase, Surroundings & { text: string }>()
  const liveBranches = (database: ManagedDatabase): number => {
    let count = 0
    for (const branch of caches.Branch.byIndex(byDatabase, idOf(database) ?? '')) {
      const same = branch.metadata.namespace === database.metadata.namespace
      if (same && branch.spec.deletionRequestedAt === undefined && branch.metadata.deletionTimestamp === undefined)
        count++
    }
    return count
  }
  return (database, tenant) => {
    const region = caches.Region.get({ name: database.spec.region })
    const branchCount = liveBranches(database)
    const kept = known.get(database)
    if (kept?.region === region && kept?.tenant === tenant && kept?.branchCount === branchCount) return kept.text
    const text = JSON.stringify(renderDatabase(database, { region, tenant, branchCount }))
    known.set(database, { region, tenant, branchCount, text })
    return text
  }
}

/** The JSON of an object with `connection` added. */
export const withConnection = (text: string, connection: Connection): string =>
  `${text.slice(0, -1)},"connection":${JSON.stringify(connection)}}`
