/**
 * The stored record of a write with an Idempotency-Key: a ConfigMap in the tenant's namespace, named by the key. So the
 * API server itself accepts only one of several concurrent requests, on any replica. The record is created before the
 * work, with the ids that the work uses. It stores the response after the work is done.
 */
import { createHash } from 'node:crypto'
import { z } from 'zod'
import type { ConfigMap } from '../../cluster/index.ts'
import { labels, managedByEspalier, timestamp, uuid } from '../../crds/index.ts'

export const idempotencyComponent = 'idempotency'

/** How long a key is valid. */
export const validMs = 24 * 3600 * 1000

/** The longest body that is stored. A longer body is rendered again from the current object. */
const longestBodyBytes = 16 * 1024

/** Field names in the ConfigMap. Earlier versions know only the first field. */
const keys = { record: 'record.json', begun: 'begun.json', isWithoutBody: 'without-body' } as const

const record = z.object({
  /** The hash of method, path and body. The key identifies this request. */
  request: z.string(),
  claimedAt: z.number(),
  /** The ids that the work uses, also in retries. */
  objectId: z.string(),
  taskId: z.string(),
  answer: z.object({ status: z.number(), body: z.string(), headers: z.record(z.string(), z.string()) }).optional(),
})

/** A deletion that has started. After its object is deleted, only this record shows the deletion. */
const begunDeletion = z.object({ name: z.string(), taskId: uuid.optional(), at: timestamp.optional() })
export type BegunDeletion = z.output<typeof begunDeletion>

export type Answer = NonNullable<z.output<typeof record>['answer']> & {
  /** Whether the body was too long to be stored. */
  isWithoutBody?: true
}
export type Ids = { objectId: string; taskId: string }
export type Content = Omit<z.output<typeof record>, 'answer'> & {
  answer?: Answer | undefined
  begun?: BegunDeletion | undefined
}

const sha256 = (text: string): string => createHash('sha256').update(text).digest('hex')

export const requestDigest = (canonicalText: string): string => sha256(canonicalText)
export const recordName = (key: string): string => `idempotency-${sha256(key).slice(0, 40)}`

/** Parses JSON that matches a schema; undefined otherwise. */
function parsed<S extends z.ZodType>(schema: S, text: string | undefined): z.output<S> | undefined {
  try {
    return schema.safeParse(JSON.parse(text ?? 'null')).data
  } catch {
    return undefined
  }
}

/** Returns a record's content while it is valid; undefined if it has expired or is unreadable. */
export function contentOf({ data = {} }: ConfigMap, now: number): Content | undefined {
  const content = parsed(record, data[keys.record])
  if (content === undefined || now >= endOf(content)) return undefined
  const { answer, ...fields } = content
  const isWithoutBody = keys.isWithoutBody in data ? { isWithoutBody: true as const } : {}
  return {
    ...fields,
    ...(answer && { answer: { ...answer, ...isWithoutBody } }),
    begun: parsed(begunDeletion, data[keys.begun]),
  }
}

/** When the record expires. */
export const endOf = ({ claimedAt }: Pick<Content, 'claimedAt'>): number => claimedAt + validMs

/** Converts the content to its stored form. */
export function dataOf({ begun, ...content }: Content): Record<string, string> {
  const { answer } = content
  const isTooLong = answer !== undefined && Buffer.byteLength(answer.body) > longestBodyBytes
  const stored = isTooLong ? { ...content, answer: { ...answer, body: '' } } : content
  return {
    [keys.record]: JSON.stringify(stored),
    ...(begun && { [keys.begun]: JSON.stringify(begun) }),
    ...(isTooLong && { [keys.isWithoutBody]: 'true' }),
  }
}

export const draftOf = (namespace: string, name: string, content: Content) => ({
  apiVersion: 'v1' as const,
  kind: 'ConfigMap' as const,
  metadata: {
    name,
    namespace,
    labels: { [labels.component]: idempotencyComponent, [labels.managedBy]: managedByEspalier },
  },
  data: dataOf(content),
})
