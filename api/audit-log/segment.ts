/**
 * Segments of the audit log that clients read: ConfigMaps in the tenant's namespace, numbered from 1. Each contains
 * JSON lines, compressed. Replicas append to the segment with the highest number, by writes that its resourceVersion
 * guards, and create the next one when it is full.
 */
import { promisify } from 'node:util'
import { gunzip, gzip } from 'node:zlib'
import { z } from 'zod'
import type { ConfigMap } from '../../cluster/index.ts'
import { labels, managedByEspalier, serviceTypes, timestamp, uuid } from '../../crds/index.ts'
import type { AuditEntry } from '../audit.ts'
import { userTypes } from '../schemas/common.ts'

export const auditComponent = 'audit'

/** All segments of a tenant together have at most 256 KiB. */
export const mostSegments = 16
const longestContent = 16 * 1024
/** Of the lines of one segment, before compression: limits what a read of it costs. */
const longestText = 256 * 1024
export const retentionMs = 30 * 24 * 3600 * 1000

const contentKey = 'entries.jsonl.gz'

/** An entry without its tenant, which is that of the namespace. */
export type StoredEntry = Omit<AuditEntry, 'tenant'> & {
  /** A UUID that begins with the time: ids order the entries of all replicas. */
  id: string
}

const storedEntry = z.object({
  id: uuid,
  time: timestamp,
  request_id: z.string(),
  member: z.string().optional(),
  address: z.string(),
  method: z.string(),
  path: z.string(),
  subject_id: z.string().optional(),
  task_id: z.string().optional(),
  status: z.int(),
  outcome: z.enum(['accepted', 'refused', 'failed']),
  sql: z
    .object({
      database_id: z.string(),
      branch_id: z.string().optional(),
      mode: z.enum(['read', 'write']),
      role: z.enum(userTypes),
      explain: z.enum(['plan', 'analyze']).optional(),
      statements: z.int(),
      sha256: z.string(),
      result: z.enum(['completed', 'failed', 'canceled']).optional(),
      completed: z.int().optional(),
      sqlstate: z.string().optional(),
    })
    .optional(),
  service: z
    .object({
      database_id: z.string(),
      branch_id: z.string().optional(),
      type: z.enum(serviceTypes),
      method: z.string().optional(),
      tool: z.string().optional(),
      pipeline: z.string().optional(),
      result: z.enum(['answered', 'failed', 'canceled']).optional(),
      status: z.int().optional(),
    })
    .optional(),
}) satisfies z.ZodType<StoredEntry>

/** A stored line, with the id by which it is ordered. */
export type Line = { id: string; text: string }

export const lineOf = (entry: StoredEntry): Line => {
  const { id, ...rest } = entry
  return { id, text: JSON.stringify({ id, ...rest }) }
}

/** Every line begins with its id, so that lines are ordered without parsing all of them. */
const beginning = /^\{"id":"([0-9a-f-]{36})"/

function lineFrom(text: string): Line {
  const [, id] = beginning.exec(text) ?? []
  if (id === undefined) throw new UnreadableSegment('a line does not begin with its id')
  return { id, text }
}

/** The entry of a line; undefined if it is not one. */
export function entryOf({ id, text }: Line): StoredEntry | undefined {
  try {
    const entry = storedEntry.safeParse(JSON.parse(text)).data
    // JSON with a second `id` would have another cursor than the line.
    return entry?.id === id ? entry : undefined
  } catch {
    return undefined
  }
}

export class UnreadableSegment extends Error {
  override readonly name = 'UnreadableSegment'
}

export const segmentName = (number: number): string => `audit-${String(number).padStart(8, '0')}`

/** The number of a segment; undefined for any other object. */
export function segmentNumber({ metadata }: ConfigMap): number | undefined {
  const number = Number(/^audit-([0-9]{8})$/.exec(metadata.name)?.[1] ?? 0)
  return number > 0 ? number : undefined
}

/** With the highest number that a name can have, no segment follows. */
export const highestNumber = 99_999_999

/** Whether an object is a segment of the tenant, and not a copy of one of another tenant. */
export const isSegmentOf = (object: ConfigMap, tenant: string): boolean =>
  segmentNumber(object) !== undefined &&
  object.metadata.labels?.[labels.component] === auditComponent &&
  object.metadata.labels[labels.tenant] === tenant

/** The segments with the highest numbers, at most as many as a tenant has. */
export const newestSegments = (segments: readonly ConfigMap[]): ConfigMap[] =>
  segments.toSorted((left, right) => (segmentNumber(right) ?? 0) - (segmentNumber(left) ?? 0)).slice(0, mostSegments)

const compress = promisify(gzip)
const decompress = promisify(gunzip)

/** @throws UnreadableSegment */
export async function linesOf({ data = {} }: ConfigMap): Promise<Line[]> {
  const content = data[contentKey]
  if (content === undefined) throw new UnreadableSegment(`it has no ${contentKey}`)
  const text = await decompress(Buffer.from(content, 'base64'), { maxOutputLength: 2 * longestText }).catch(error => {
    throw new UnreadableSegment('its content cannot be decompressed', { cause: error })
  })
  return text
    .toString()
    .split('\n')
    .filter(line => line !== '')
    .map(lineFrom)
}

/** The content of a segment with these lines; undefined if it would be too long. */
async function contentWith(lines: readonly Line[]): Promise<string | undefined> {
  const text = lines.map(line => `${line.text}\n`).join('')
  if (text.length > longestText) return undefined
  const content = (await compress(text)).toString('base64')
  return content.length <= longestContent ? content : undefined
}

type Packed = { data: Record<string, string>; added: number }

/** Appends as many of the new lines as a segment can contain; undefined: not even the first. */
export async function append(present: readonly Line[], more: readonly Line[]): Promise<Packed | undefined> {
  for (let added = more.length; added > 0; added = Math.floor(added / 2)) {
    const content = await contentWith([...present, ...more.slice(0, added)])
    if (content !== undefined) return { data: { [contentKey]: content }, added }
  }
  return undefined
}

/** The segments that exceed the number of a tenant, or end before the retention began: the next one is that old. */
export function expiredSegments(segments: readonly ConfigMap[], now: number): ConfigMap[] {
  const sorted = segments
    .flatMap(object => {
      const number = segmentNumber(object)
      return number === undefined ? [] : [{ object, number }]
    })
    .toSorted((left, right) => right.number - left.number)
    .map(({ object }) => object)
  return sorted.filter((_, index) => {
    const next = sorted[index - 1]
    const nextSince = Date.parse(next?.metadata.creationTimestamp ?? '')
    return index >= mostSegments || nextSince < now - retentionMs
  })
}

export const segmentDraft = (namespace: string, tenant: string, number: number, data: Record<string, string>) => ({
  apiVersion: 'v1' as const,
  kind: 'ConfigMap' as const,
  metadata: {
    name: segmentName(number),
    namespace,
    labels: { [labels.component]: auditComponent, [labels.tenant]: tenant, [labels.managedBy]: managedByEspalier },
  },
  data,
})
