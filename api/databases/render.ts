/** Renders a ManagedDatabase as the API returns it. Its JSON text is rendered once for each version of its inputs. */
import type { Kinds } from '../../cluster/index.ts'
import { hostLabel, isInForce, isLiveBranch, visiblePhase } from '../../crds/index.ts'
import { byDatabase, type Caches, idOf } from '../caches.ts'
import { renderAttention } from '../render/attention.ts'
import { createdTime } from '../render/created-at.ts'
import { shownDomain, shownHostName } from '../render/domain.ts'
import { updatedAt } from '../render/updated-at.ts'
import type { Connection } from '../schemas/common.ts'
import { renderServices } from '../services/render.ts'
import { renderAllowlist } from './allowlist.ts'
import { renderBackupPolicy } from './backup-policy.ts'
import { renderCredentials } from './connection-secrets.ts'
import { renderImport, timesOfImport } from './import.ts'
import { sizeInForce } from './resize.ts'
import type { DatabaseShape } from './schema.ts'
import { renderStorage } from './storage.ts'

type ManagedDatabase = Kinds['ManagedDatabase']

/** Inputs from outside the object itself. */
type RelatedObjects = {
  region: Kinds['Region'] | undefined
  tenant: Kinds['Tenant'] | undefined
  /** The database's branches, including recently deleted ones. */
  branches: readonly Kinds['Branch'][]
}

/**
 * The limit that the operator recorded, with the time of its last change. Without an operator, only the spec is known.
 */
const shownLimit = (tenant: Kinds['Tenant'] | undefined): number | null =>
  (tenant?.status?.branches ?? { limit: tenant?.spec.limits.branchesPerDatabase }).limit ?? null

/** When a branch stopped counting as live: the first deletion request, by the API or by kubectl. */
const endedTime = ({ spec, metadata }: Kinds['Branch']): string | undefined =>
  [spec.deletionRequestedAt, metadata.deletionTimestamp]
    .filter(time => time !== undefined)
    .toSorted((left, right) => Date.parse(left) - Date.parse(right))[0]

/** The times at which this branch changed the number of live branches. */
const countedTimes = (branch: Kinds['Branch']): (string | undefined)[] => [createdTime(branch), endedTime(branch)]

/** The size of the current data, and of the previous volumes that are kept. */
function storageUsedBy({ status }: ManagedDatabase): number | undefined {
  const previous = status?.previous?.map(({ bytes = 0 }) => bytes) ?? []
  const all = status?.storageUsedBytes === undefined ? previous : [status.storageUsedBytes, ...previous]
  return all.length === 0 ? undefined : all.reduce((sum, bytes) => sum + bytes, 0)
}

/** Renders everything except `connection`, which only single reads return. The object must have an id. */
export function renderDatabase(database: ManagedDatabase, { region, tenant, branches }: RelatedObjects): DatabaseShape {
  const { metadata, spec, status } = database
  const id = idOf(database) ?? ''
  const storage = renderStorage(database)
  const storageUsed = storageUsedBy(database)
  const credentials = renderCredentials(spec)
  const backup = renderBackupPolicy(spec)
  const attention = renderAttention(visiblePhase(database), status?.conditions)
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
      ...timesOfImport(status?.import),
      status?.domain === undefined ? region && shownDomain(region).since : undefined,
    ]),
    ip_allowlist: renderAllowlist(spec.ipAllowlist),
    ...(attention === undefined ? {} : { attention }),
    ...(backup === undefined ? {} : { backup }),
    branch_count: branches.filter(isLiveBranch).length,
    branch_limit: shownLimit(tenant),
    ...(credentials === undefined ? {} : { credentials }),
    deletion_protection: spec.deletionProtection,
    display_name: spec.displayName ?? null,
    ...(domain === undefined ? {} : { domain }),
    ...(status?.import === undefined ? {} : { import: renderImport(status.import) }),
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
 * A number that changes whenever the related objects of databases may have changed: a region or a branch. They rarely
 * change. Reading each of them for each database would cost more than rendering.
 */
export function createRelatedObjectsEpoch(caches: Caches): () => number {
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

/** Caches the text with each object. Renders the text again when the tenant or the related objects have changed. */
export function createDatabaseText(caches: Caches, epoch: () => number): DatabaseText {
  const known = new WeakMap<ManagedDatabase, { epoch: number; tenant: Kinds['Tenant'] | undefined; text: string }>()

  const branchesOf = (database: ManagedDatabase): Kinds['Branch'][] =>
    caches.Branch.byIndex(byDatabase, idOf(database) ?? '').filter(
      branch => branch.metadata.namespace === database.metadata.namespace,
    )

  return (database, tenant) => {
    const cached = known.get(database)
    const current = epoch()
    if (cached !== undefined && cached.epoch === current && cached.tenant === tenant) return cached.text
    const region = caches.Region.get({ name: database.spec.region })
    const text = JSON.stringify(renderDatabase(database, { region, tenant, branches: branchesOf(database) }))
    known.set(database, { epoch: current, tenant, text })
    return text
  }
}

/** The JSON of an object with `connection` added. */
export const withConnection = (text: string, connection: Connection): string =>
  `${text.slice(0, -1)},"connection":${JSON.stringify(connection)}}`
