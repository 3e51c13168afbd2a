/**
 * How the API, which writes what is wanted, and the operator, which makes it so, agree on what is in force: the hash
 * of what was asked. While it differs from `status.appliedHash` the database is `modifying`, so no client ever reads
 * `available` right after its own PATCH, whichever replica answers it.
 */
import { createHash } from 'node:crypto'
import { z } from 'zod'
import { uuid } from './fields.ts'
import {
  type DatabasePhase,
  type ManagedDatabase,
  type ManagedDatabaseSpec,
  operationName,
} from './managed-database.ts'
import { annotations } from './metadata.ts'

/** The annotation `espalier.dev/operation`: what the last asynchronous API write asked for, and its task. */
const operationAnnotation = z.strictObject({
  taskId: uuid,
  name: operationName,
  /** `desiredHash` of the spec written with it: an older annotation is told by a hash that no longer fits. */
  hash: z.string(),
})
export type Operation = z.output<typeof operationAnnotation>

/** JSON with object keys in order, so that equal values have equal text. */
export function canonicalJson(value: unknown): string {
  return JSON.stringify(value, (_key, inner: unknown) =>
    inner !== null && typeof inner === 'object' && !Array.isArray(inner)
      ? Object.fromEntries(Object.entries(inner).sort(([left], [right]) => (left < right ? -1 : 1)))
      : inner,
  )
}

/** 32 hexadecimal characters over what takes the operator's work to come into force; names and options do not. */
export function desiredHash(
  spec: Pick<ManagedDatabaseSpec, 'services' | 'ipAllowlist' | 'size' | 'suspended'>,
): string {
  const { services, ipAllowlist, size, suspended } = spec
  const asked = { services, cidrs: ipAllowlist.rules.map(rule => rule.cidr), size, suspended }
  return createHash('sha256').update(canonicalJson(asked)).digest('hex').slice(0, 32)
}

/** The annotation's text, for the API to write. */
export const renderOperation = (operation: Operation): string => JSON.stringify(operation)

/** The operation a database's annotation names, if it stands for what its spec asks now; else undefined. */
export function readOperation(database: ManagedDatabase): Operation | undefined {
  const text = database.metadata.annotations?.[annotations.operation]
  if (text === undefined) return undefined
  const parsed = operationAnnotation.safeParse(parseJson(text))
  if (!parsed.success) return undefined
  return parsed.data.name === 'delete-managed' || parsed.data.hash === desiredHash(database.spec)
    ? parsed.data
    : undefined
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** The status that a client sees: what the operator last wrote, unless what was asked has moved on since. */
export function visiblePhase(database: ManagedDatabase): DatabasePhase {
  if (database.metadata.deletionTimestamp !== undefined) return 'deleting'
  const phase = database.status?.phase
  if (phase === undefined) return 'creating'
  const settled = phase === 'available' || phase === 'degraded' || phase === 'suspended'
  if (!settled || database.status?.appliedHash === desiredHash(database.spec)) return phase
  if (phase === 'suspended') return database.spec.suspended ? 'suspended' : 'resuming'
  return database.spec.suspended ? 'suspending' : 'modifying'
}
