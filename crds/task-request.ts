/**
 * What a Task says was asked: the members that may stand there, by a list, and no more than 8 KiB of them. What the list
 * does not name is left out, whatever it is and wherever it came from: secrets of services above all. Tasks made before
 * there was a list are shown by it, too.
 */
import { isRecord } from '../values/record.ts'

/** Most bytes of JSON that a request takes in a Task. */
export const highestRequestBytes = 8 * 1024

/** `true`: text, number, truth or null, or a list of these. Members of a list are shown as the list is. */
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
  role: true,
  kind: true,
  source_backup_id: true,
  source_branch_id: true,
  expires_at: true,
  backup_id: true,
  discard_previous: true,
}

const leftOut = (bytes: number): string => `(left out: ${bytes} bytes)`
const leftOutPattern = /^\(left out: [0-9]{1,15} bytes\)$/

/** The part of a value that may stand; undefined where none does. */
function part(value: unknown, as: Shown): unknown {
  if (Array.isArray(value)) {
    // No list that was taken is as long; one that is would only be put together to be left out.
    if (value.length > highestRequestBytes) return leftOut(value.length)
    return value.flatMap(item => {
      const kept = Array.isArray(item) ? undefined : part(item, as)
      return kept === undefined ? [] : [kept]
    })
  }
  if (isRecord(value)) return as === true ? undefined : members(value, as)
  if (typeof value === 'string' && value.length > highestRequestBytes) return leftOut(Buffer.byteLength(value))
  return as === true || (typeof value === 'string' && leftOutPattern.test(value)) ? value : undefined
}

function members(value: Record<string, unknown>, as: ShownMembers): Record<string, unknown> {
  const found = Object.entries(as).map(([field, inner]) => [
    field,
    Object.hasOwn(value, field) ? part(value[field], inner) : undefined,
  ])
  return Object.fromEntries(found.filter(([, inner]) => inner !== undefined))
}

const bytesOf = (value: unknown): number => Buffer.byteLength(JSON.stringify(value))

/** What may stand of what was asked; its largest members, as far as it has to be, replaced by how large they were. */
export function taskRequest(asked: Record<string, unknown>): Record<string, unknown> {
  const kept = members(asked, shown)
  const bySize = Object.entries(kept)
    .map(([field, value]) => ({ field, bytes: bytesOf(value) }))
    .sort((left, right) => left.bytes - right.bytes)
  for (let largest = bySize.pop(); largest !== undefined; largest = bySize.pop()) {
    if (bytesOf(kept) <= highestRequestBytes) return kept
    kept[largest.field] = leftOut(largest.bytes)
  }
  return kept
}
