/**
 * What is kept of a write with an Idempotency-Key: a ConfigMap in the tenant's namespace, named by the key, so that the API
 * server itself lets one of several concurrent claims win, whichever replica they reach. It is written before the work, with the
 * ids that the work uses, and holds the answer once the work is done.
 */
import { createHash } from 'node:crypto'
import { z } from 'zod'
import type { ConfigMap } from '../../cluster/index.ts'
import { labels, managedByEspalier, timestamp, uuid } from '../../crds/index.ts'

export const idempotencyComponent = 'idempotency'

/** How long a key stands for its request. */
export const validMs = 24 * 3600 * 1000

/** The longest body that is kept. A longer one is made again from what there is. */
const longestBodyBytes = 16 * 1024

/** What an object is called in a ConfigMap. The first is all that earlier versions know. */
const keys = { record: 'record.json', begun: 'begun.json', isWithoutBody: 'without-body' } as const

const record = z.object({
  /** Of method, path and body: what the key stands for. */
  request: z.string(),
  claimedAt: z.number(),
  /** The ids that the work uses, whoever finishes it. */
  objectId: z.string(),
  taskId: z.string(),
  answer: z.object({ status: z.number(), body: z.string(), headers: z.record(z.string(), z.string()) }).optional(),
})

/** A deletion that has begun: once its object is gone, nothing else tells of it. */
const begunDeletion = z.object({ name: z.string(), taskId: uuid.optional(), at: timestamp.optional() })
export type BegunDeletion = z.output<typeof begunDeletion>

export type Answer = NonNullable<z.output<typeof record>['answer']> & {
  /** It had a body that was too long to be kept. */
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

/** JSON that a schema reads; undefined where it is none of its. */
function parsed<S extends z.ZodType>(schema: S, text: string | undefined): z.output<S> | undefined {
  try {
    return schema.safeParse(JSON.parse(text ?? 'null')).data
  } catch {
    return undefined
  }
}

/** What a record says while it counts; undefined once its time is over, or where it cannot be read. */
export function contentOf({ data = {} }: ConfigMap, now: number): Content | undefined {
  const content = parsed(record, data[keys.record])
  if (content === undefined || now >= endOf(content)) return undefined
  const { answer, ...claim } = content
  const isWithoutBody = keys.isWithoutBody in data ? { isWithoutBody: true as const } : {}
  return {
    ...claim,
    ...(answer && { answer: { ...answer, ...isWithoutBody } }),
    begun: parsed(begunDeletion, data[keys.begun]),
  }
}

/** When the time of a record is over. */
export const endOf = ({ claimedAt }: Pick<Content, 'claimedAt'>): number => claimedAt + validMs

/** As it is stored. */
export function dataOf({ begun, ...content }: Content): Record<string, string> {
  const { answer } = content
  const isTooLong = answer !== undefined && Buffer.byteLength(answer.body) > longestBodyBytes
  const kept = isTooLong ? { ...content, answer: { ...answer, body: '' } } : content
  return {
    [keys.record]: JSON.stringify(kept),
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
