/**
 * What is known of the database that a volume belongs to, in a file beside the volume's directory: `<volume>.json`. It holds
 * what `espalier rescue` needs to put the database back where the store is lost, and no secret.
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
  /** The number of the member whose volume it is; absent: the first. */
  member: z.int().min(1).optional(),
  /** Postgres's own number of the data. */
  systemIdentifier: z.string().min(1).max(32),
  /** What the volume has, where it has grown by itself. */
  capacity: z.string().max(32).optional(),
}
const shape = z.discriminatedUnion('kind', [
  z.object({ ...common, kind: z.literal('ManagedDatabase'), spec: databaseSpec }),
  z.object({ ...common, kind: z.literal('Branch'), spec: branchSpec }),
])
export type VolumeRecord = z.output<typeof shape>

/** The record of a database or branch; undefined while it has no volume or nothing says whose it is. */
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
    : { ...known, kind: 'ManagedDatabase', spec: object.spec as z.output<typeof databaseSpec> }
}

/** The record that a text holds; undefined where it is none, or a newer release's. */
export function parseRecord(text: string): VolumeRecord | undefined {
  try {
    return shape.safeParse(JSON.parse(text)).data
  } catch {
    return undefined
  }
}
