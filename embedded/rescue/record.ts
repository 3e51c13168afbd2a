/**
 * The record of the database that a volume belongs to, in a file next to the volume's directory: `<volume>.json`. It
 * contains what `espalier rescue` needs to restore the database if the store is lost, and no secret.
 */
import { z } from 'zod'
import type { Kinds } from '../../cluster/index.ts'
import {
  branch,
  firstMember,
  labels,
  managedDatabase,
  memberOfClaim,
  type Tenant,
  tenant as tenantKind,
  uuid,
} from '../../crds/index.ts'

const databaseSpec = managedDatabase.spec
const branchSpec = branch.spec

const common = {
  format: z.literal(1),
  id: uuid,
  name: z.string().min(1).max(253),
  tenant: tenantKind.spec,
  incarnation: z.int().min(1),
  /** The number of the volume's member; absent: the first. */
  member: z.int().min(1).optional(),
  /** Postgres's system identifier of the data. */
  systemIdentifier: z.string().min(1).max(32),
  /** The volume's size if the volume has grown automatically. */
  capacity: z.string().max(32).optional(),
}
const shape = z.discriminatedUnion('kind', [
  z.object({ ...common, kind: z.literal('ManagedDatabase'), spec: databaseSpec }),
  z.object({ ...common, kind: z.literal('Branch'), spec: branchSpec }),
])
export type VolumeRecord = z.output<typeof shape>

/** The record of a database or branch. Undefined while it has no volume, or while its tenant is unknown. */
export function recordOf(
  object: Kinds['ManagedDatabase'] | Kinds['Branch'],
  tenant: Tenant | undefined,
): VolumeRecord | undefined {
  const { metadata, status } = object
  const id = metadata.labels?.[labels.id]
  if (status?.volume === undefined || id === undefined || tenant === undefined) return undefined
  const number = memberOfClaim(status.volume.claim)
  const known = {
    format: 1 as const,
    id,
    name: metadata.name,
    tenant: tenant.spec,
    incarnation: status.incarnation ?? 1,
    ...(number === firstMember ? {} : { member: number }),
    systemIdentifier: status.volume.systemIdentifier,
    ...(status.storage && { capacity: status.storage.capacity }),
  }
  return object.kind === 'Branch'
    ? { ...known, kind: 'Branch', spec: object.spec }
    : { ...known, kind: 'ManagedDatabase', spec: specOf(object) }
}

/** A completed import is not repeated. An incomplete import must never become a serving database. */
function specOf({ spec, status }: Kinds['ManagedDatabase']): z.output<typeof databaseSpec> {
  const { import: imported, ...rest } = spec as z.output<typeof databaseSpec>
  return imported === undefined || status?.import?.phase === 'completed' ? rest : { ...rest, import: imported }
}

/** Parses a record; undefined if it is invalid or from a newer release. */
export function parseRecord(text: string): VolumeRecord | undefined {
  try {
    return shape.safeParse(JSON.parse(text)).data
  } catch {
    return undefined
  }
}
