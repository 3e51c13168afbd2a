/** A ManagedDatabase as the API gives it, and its text, made once per version of what it is made from. */
import type { Kinds } from '../../cluster/index.ts'
import { hostLabel, isInForce, isLiveBranch, visiblePhase } from '../../crds/index.ts'
import { byDatabase, type Caches, idOf } from '../caches.ts'
import { createdTime } from '../render/created-at.ts'
import { shownDomain, shownHostName } from '../render/domain.ts'
import { updatedAt } from '../render/updated-at.ts'
import type { Connection } from '../schemas/common.ts'
import { renderServices } from '../services/render.ts'
import { renderAllowlist } from './allowlist.ts'
import { renderCredentials } from './connection-secrets.ts'
import { sizeInForce } from './resize.ts'
import type { DatabaseShape } from './schema.ts'
import { renderStorage } from './storage.ts'

type ManagedDatabase = Kinds['ManagedDatabase']

/** What stands outside the object itself. */
type Surroundings = {
  region: Kinds['Region'] | undefined
  tenant: Kinds['Tenant'] | undefined
  /** Of the database, deleted ones included as long as they are kept. */
  branches: readonly Kinds['Branch'][]
}

/** As the operator has noted it, beside when it became another; no operator has, where there is only what is asked. */
const shownLimit = (tenant: Kinds['Tenant'] | undefined): number | null =>
  (tenant?.status?.branches ?? { limit: tenant?.spec.limits.branchesPerDatabase }).limit ?? null

/** When a branch ceased to be live: its deletion was requested through the API, or by kubectl, whichever came first. */
const endedTime = ({ spec, metadata }: Kinds['Branch']): string | undefined =>
  [spec.deletionRequestedAt, metadata.deletionTimestamp]
    .filter(time => time !== undefined)
    .toSorted((left, right) => Date.parse(left) - Date.parse(right))[0]

/** When the number of live branches changed for this one. */
const countedTimes = (branch: Kinds['Branch']): (string | undefined)[] => [createdTime(branch), endedTime(branch)]

/** The data that serve, and those of before restores that are kept. */
function storageUsedBy({ status }: ManagedDatabase): number | undefined {
  const previous = status?.previous?.map(({ bytes = 0 }) => bytes) ?? []
  const all = status?.storageUsedBytes === undefined ? previous : [status.storageUsedBytes, ...previous]
  return all.length === 0 ? undefined : all.reduce((sum, bytes) => sum + bytes, 0)
}

/** Everything but `connection`, which only single reads have. The object must have an id. */
export function renderDatabase(database: ManagedDatabase, { region, tenant, branches }: Surroundings): DatabaseShape {
  const { metadata, spec, status } = database
  const id = idOf(database) ?? ''
  const storage = renderStorage(database)
  const storageUsed = storageUsedBy(database)
  const credentials = renderCredentials(spec)
  const domain = shownHostName({ assigned: status?.domain, label: hostLabel(metadata.name, id) }, region)
  return {
    id,
    region: spec.region,
    name: metadata.name,
    size: sizeInForce(database).name,
    status: visiblePhase(database),
    created_at: createdTime(database),
    updated_at: updatedAt(database, [
      ...branches.flatMap(countedTimes),
      tenant?.status?.branches?.since,
      status?.domain === undefined ? region && shownDomain(region).since : undefined,
    ]),
    ip_allowlist: renderAllowlist(spec.ipAllowlist),
    branch_count: branches.filter(isLiveBranch).length,
    branch_limit: shownLimit(tenant),
    ...(credentials === undefined ? {} : { credentials }),
    deletion_protection: spec.deletionProtection,
    display_name: spec.displayName ?? null,
    ...(domain === undefined ? {} : { domain }),
    options: spec.options,
    pg_version: spec.pgVersion,
    ...(status?.endpoint === undefined ? {} : { port: status.endpoint.port }),
    services: renderServices(spec.services, {
      statuses: status?.services,
      domain,
      isChanging: spec.services.length > 0 && !isInForce(database),
    }),
    ...(storage === undefined ? {} : { storage }),
    ...(storageUsed === undefined ? {} : { storage_used: storageUsed }),
  }
}

/**
 * A number that is another one whenever what surrounds databases may have changed: a region, a branch. Those change
 * seldom, and looking each one up for each database would cost more than rendering it.
 */
export function createSurroundingsEpoch(caches: Caches): () => number {
  let epoch = 0
  const changed = () => {
    epoch++
  }
  caches.Region.onChange(changed)
  caches.Branch.onChange(changed)
  return () => epoch
}

/** The JSON of a database without `connection`. */
export type DatabaseText = (database: ManagedDatabase, tenant: Kinds['Tenant'] | undefined) => string

/** Keeps the text of each object as long as the object, and makes it again when tenant or surroundings have changed. */
export function createDatabaseText(caches: Caches, epoch: () => number): DatabaseText {
  const known = new WeakMap<ManagedDatabase, { epoch: number; tenant: Kinds['Tenant'] | undefined; text: string }>()

  const branchesOf = (database: ManagedDatabase): Kinds['Branch'][] =>
    caches.Branch.byIndex(byDatabase, idOf(database) ?? '').filter(
      branch => branch.metadata.namespace === database.metadata.namespace,
    )

  return (database, tenant) => {
    const kept = known.get(database)
    const current = epoch()
    if (kept !== undefined && kept.epoch === current && kept.tenant === tenant) return kept.text
    const region = caches.Region.get({ name: database.spec.region })
    const text = JSON.stringify(renderDatabase(database, { region, tenant, branches: branchesOf(database) }))
    known.set(database, { epoch: current, tenant, text })
    return text
  }
}

/** The JSON of an object with `connection` added. */
export const withConnection = (text: string, connection: Connection): string =>
  `${text.slice(0, -1)},"connection":${JSON.stringify(connection)}}`
