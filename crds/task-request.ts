/**
 * The part of a request that a Task records: only listed members, at most 8 KiB. All other members are omitted, above
 * all the secrets of services. Tasks from before the list are filtered when they are read.
 */
import { isRecord } from '../values/record.ts'

/** The maximum size of a request in a Task, in bytes of JSON. */
export const highestRequestBytes = 8 * 1024

/** `true`: a string, number, boolean or null, or a list of these. The items of a list are filtered like the list. */
type Shown = true | ShownMembers
type ShownMembers = { readonly [field: string]: Shown }

const ipAllowlist: ShownMembers = { rules: { cidr: true, label: true } }

const shown: ShownMembers = {
  name: true,
  display_name: true,
  region: true,
  size: true,
  pg_version: true,
  options: true,
  deletion_protection: true,
  ip_allowlist: ipAllowlist,
  storage: { autogrow: { at_percent: true, step_percent: true, max_size: true } },
  services: { service_type: true, service_id: true, ip_allowlist: ipAllowlist },
  force: true,
  keep_backups: true,
  purge: true,
  role: true,
  kind: true,
  source_backup_id: true,
  source_branch_id: true,
  expires_at: true,
  backup_id: true,
  branch_id: true,
  target_time: true,
  target_lsn: true,
  target_name: true,
  discard_previous: true,
}

const omitted = (bytes: number): string => `(left out: ${bytes} bytes)`
const omittedPattern = /^\(left out: [0-9]{1,15} bytes\)$/

/** The allowed part of a value. Undefined if there is none. */
function part(value: unknown, as: Shown): unknown {
  if (Array.isArray(value)) {
    // No valid list is that long, so serialising it would be wasted work.
    if (value.length > highestRequestBytes) return omitted(value.length)
    return value.flatMap(item => {
      const retained = Array.isArray(item) ? undefined : part(item, as)
      return retained === undefined ? [] : [retained]
    })
  }
  if (isRecord(value)) return as === true ? undefined : members(value, as)
  if (typeof value === 'string' && value.length > highestRequestBytes) return omitted(Buffer.byteLength(value))
  return as === true || (typeof value === 'string' && omittedPattern.test(value)) ? value : undefined
}

function members(value: Record<string, unknown>, as: ShownMembers): Record<string, unknown> {
  const found = Object.entries(as).map(([field, inner]) => [
    field,
    Object.hasOwn(value, field) ? part(value[field], inner) : undefined,
  ])
  return Object.fromEntries(found.filter(([, inner]) => inner !== undefined))
}

const bytesOf = (value: unknown): number => Buffer.byteLength(JSON.stringify(value))

/** The allowed part of a request. If it is too large, a note of their size replaces its largest members. */
export function taskRequest(request: Record<string, unknown>): Record<string, unknown> {
  const retained = members(request, shown)
  const bySize = Object.entries(retained)
    .map(([field, value]) => ({ field, bytes: bytesOf(value) }))
    .sort((left, right) => left.bytes - right.bytes)
  for (let largest = bySize.pop(); largest !== undefined; largest = bySize.pop()) {
    if (bytesOf(retained) <= highestRequestBytes) return retained
    retained[largest.field] = omitted(largest.bytes)
  }
  return retained
}
