/** Plans which databases are restored from which volumes, and which volumes are skipped. Pure. */
import type { ManagedDatabase, Tenant } from '../../crds/index.ts'
import { firstMember, tenantNamespace } from '../../crds/index.ts'
import type { FoundVolume } from './find.ts'
import type { VolumeRecord } from './record.ts'

/** A database to restore. Its size and allowlist are unknown if its volume has no record. */
export type Rescued = {
  volume: FoundVolume
  id: string
  name: string
  tenant: Tenant['spec']
  incarnation: number
  /** The member that the volume belongs to. */
  number: number
  systemIdentifier: string
  pgVersion: string
  spec: Partial<ManagedDatabase['spec']>
  capacity: string | undefined
  wasBranch: boolean
}
export type RescuePlan = { databases: Rescued[]; skipped: { volume: FoundVolume; why: string }[] }

const namePattern = /^[a-z][a-z0-9]{0,49}$/

/** `tenants`: ids of tenants whose volumes may have no record. */
export function planRescue(volumes: readonly FoundVolume[], tenants: readonly string[]): RescuePlan {
  const plan: RescuePlan = { databases: [], skipped: [] }
  const skip = (volume: FoundVolume, why: string): void => void plan.skipped.push({ volume, why })
  const named = new Map(tenants.map(tenantId => [tenantNamespace(tenantId), tenantId]))
  const candidates = volumes.filter(volume => {
    const { identity, systemIdentifier } = volume
    if (identity === undefined) skip(volume, 'it has no identity: it was never initialised')
    else if (systemIdentifier === undefined) skip(volume, 'it has no complete data directory')
    return identity !== undefined && systemIdentifier !== undefined
  })
  const taken = new Set<string>()
  const groups = Map.groupBy(candidates, ({ namespace, identity }) => `${namespace}/${identity?.databaseId}`)
  for (const group of groups.values()) {
    const { serving, others } = choose(group)
    for (const other of others) {
      const why = serving === undefined ? 'another volume has the same identity: move one of them away' : superseded
      skip(other, why)
    }
    if (serving === undefined) continue
    const tenant = serving.record?.tenant ?? knownTenant(named.get(serving.namespace))
    if (tenant === undefined) {
      skip(serving, 'its tenant is unknown: name its tenant with --tenant')
      continue
    }
    plan.databases.push(rescued(serving, tenant, taken))
  }
  return plan
}

const superseded = 'a newer volume of the same database is used'

const knownTenant = (tenantId: string | undefined): Tenant['spec'] | undefined =>
  tenantId === undefined
    ? undefined
    : { tenantId, plan: { name: 'standard' }, limits: { databases: 1000 }, revokedMembers: [] }

/** Whether the record describes the current data, not the data before a restore. */
const isCurrent = ({ record, identity }: FoundVolume): boolean =>
  record !== undefined &&
  record.id === identity?.databaseId &&
  record.incarnation === identity.incarnation &&
  record.member === identity.member

/** Returns the volume that a database used: the newest with a record, otherwise the newest. */
function choose(group: readonly FoundVolume[]): { serving: FoundVolume | undefined; others: FoundVolume[] } {
  const described = group.filter(isCurrent)
  const eligible = described.length > 0 ? described : group
  const newest = Math.max(...eligible.map(({ identity }) => identity?.incarnation ?? 0))
  const serving = eligible.filter(({ identity }) => identity?.incarnation === newest)
  const [only] = serving
  if (only === undefined || serving.length > 1) return { serving: undefined, others: [...group] }
  return { serving: only, others: group.filter(volume => volume !== only) }
}

function rescued(volume: FoundVolume, tenant: Tenant['spec'], taken: Set<string>): Rescued {
  const record: VolumeRecord | undefined = isCurrent(volume) ? volume.record : undefined
  const { databaseId: id = '', incarnation = 1, member: number = firstMember, pgVersion = '' } = volume.identity ?? {}
  const name = freeName(record?.name ?? `rescued${id.slice(0, 8)}`, volume.namespace, taken)
  return {
    ...{ volume, id, name, tenant, incarnation, number, pgVersion },
    systemIdentifier: volume.systemIdentifier ?? '',
    spec: record === undefined ? {} : specOf(record),
    capacity: record?.capacity,
    wasBranch: record?.kind === 'Branch',
  }
}

/** Restores a branch as an independent database, because its source may be lost. */
function specOf(record: VolumeRecord): Partial<ManagedDatabase['spec']> {
  if (record.kind === 'ManagedDatabase') return record.spec
  const { region, size, storage, displayName, ipAllowlist, services, options } = record.spec
  return {
    ...{ region, size, ipAllowlist, services, options },
    ...(storage && { storage }),
    ...(displayName !== undefined && { displayName }),
  }
}

/** Returns the name, or a similar name that is free and valid. */
function freeName(wanted: string, namespace: string, taken: Set<string>): string {
  const letters = wanted.toLowerCase().replace(/[^a-z0-9]/g, '')
  const base = namePattern.test(letters) ? letters : `r${letters}`.slice(0, 50)
  let name = base
  for (let n = 2; taken.has(`${namespace}/${name}`); n++) name = `${base.slice(0, 46)}${n}`
  taken.add(`${namespace}/${name}`)
  return name
}
