/**
 * Idempotency-Key: within 24 hours a repeated write with the same key and body does nothing twice and gets the first
 * one's answer. The record is a ConfigMap in the tenant's namespace, named by the key, so the API server itself lets
 * one of several concurrent claims win, whichever replica they reach.
 *
 * A record is claimed before the work, with the ids the work will use, and holds the answer once the work is done. A
 * process that dies in between leaves a claim without an answer; a retry goes on with the same ids and finds what was
 * made already. Work that is refused gives the key back.
 */
import { createHash } from 'node:crypto'
import { z } from 'zod'
import { type Cluster, type ConfigMap, isClusterError } from '../../cluster/index.ts'
import { canonicalJson, labels, managedByEspalier } from '../../crds/index.ts'
import { ApiError, badRequest } from '../errors.ts'

export const idempotencyComponent = 'idempotency'
const validMs = 24 * 3600 * 1000
const recordKey = 'record.json'

const record = z.strictObject({
  /** Of method, path and body: what the key stands for. */
  request: z.string(),
  claimedAt: z.number(),
  /** The ids that the work uses, whoever finishes it. */
  objectId: z.string(),
  taskId: z.string(),
  answer: z
    .strictObject({ status: z.number(), body: z.string(), headers: z.record(z.string(), z.string()) })
    .optional(),
})
type Content = z.output<typeof record>
export type Answer = NonNullable<Content['answer']>
/** A record in the cluster, and what it says. */
type Claim = { object: ConfigMap; content: Content }
export type Ids = { objectId: string; taskId: string }
/** The answer, be it of now or of before, and the ids that the work has used. */
type Done = { answer: Answer; ids: Ids }

export type Idempotency = {
  /**
   * Does the work once: `work` gets the ids to use, the same in every retry. Without a key it is simply done.
   * @throws ApiError 400 where the key stood for another request
   */
  once: (request: IdempotentRequest, fresh: () => Ids, work: (ids: Ids) => Promise<Answer>) => Promise<Done>
  /** Deletes the records whose time is over. */
  sweep: () => Promise<void>
}
type IdempotentRequest = {
  namespace: string
  /** The client's Idempotency-Key. */
  key: string | undefined
  method: string
  path: string
  body: unknown
}

const sha256 = (text: string): string => createHash('sha256').update(text).digest('hex')

export function createIdempotency(cluster: Cluster, now: () => number): Idempotency {
  /** What the record says while it counts; undefined once its time is over, or where it cannot be read. */
  function contentOf(object: ConfigMap): Content | undefined {
    const text = object.data?.[recordKey] ?? ''
    const content = record.safeParse(text.startsWith('{') ? JSON.parse(text) : undefined).data
    return content !== undefined && now() - content.claimedAt < validMs ? content : undefined
  }

  const draft = (namespace: string, name: string, content: Content) => ({
    apiVersion: 'v1' as const,
    kind: 'ConfigMap' as const,
    metadata: {
      name,
      namespace,
      labels: { [labels.component]: idempotencyComponent, [labels.managedBy]: managedByEspalier },
    },
    data: { [recordKey]: JSON.stringify(content) },
  })

  /** The record that stands under the name: ours, or the one that was there first. Undefined: the tenant has nothing yet, no place for one either. */
  async function claim(namespace: string, name: string, content: Content): Promise<Claim | undefined> {
    for (;;) {
      try {
        return { object: await cluster.create('ConfigMap', draft(namespace, name, content)), content }
      } catch (error) {
        if (isClusterError(error, 'NotFound')) return undefined
        if (!isClusterError(error, 'AlreadyExists')) throw error
      }
      const existing = await cluster.get('ConfigMap', { namespace, name })
      const standing = existing && contentOf(existing)
      if (existing !== undefined && standing !== undefined) return { object: existing, content: standing }
      if (existing !== undefined) await remove(existing)
    }
  }

  async function remove({ metadata: { namespace, name, uid, resourceVersion } }: ConfigMap): Promise<void> {
    try {
      await cluster.delete('ConfigMap', { namespace, name }, { uid, resourceVersion })
    } catch (error) {
      // Someone else got there first, or has its answer by now: theirs stands.
      if (!isClusterError(error, 'Conflict')) throw error
    }
  }

  async function finish({ object, content }: Claim, answer: Answer): Promise<void> {
    const data = { [recordKey]: JSON.stringify({ ...content, answer }) }
    try {
      await cluster.replace('ConfigMap', { ...object, data })
    } catch (error) {
      // A concurrent duplicate with the same ids was quicker.
      if (!isClusterError(error, 'Conflict', 'NotFound')) throw error
    }
  }

  return {
    async once({ namespace, key, method, path, body }, fresh, work) {
      const ids = fresh()
      if (key === undefined) return { answer: await work(ids), ids }
      const request = sha256(canonicalJson({ method, path, body: body ?? null }))
      const name = `idempotency-${sha256(key).slice(0, 40)}`
      const claimed = await claim(namespace, name, { request, claimedAt: now(), ...ids })
      if (claimed === undefined) return { answer: await work(ids), ids }
      const { content } = claimed
      if (content.request !== request) throw badRequest('Idempotency-Key: was already used for another request')
      if (content.answer !== undefined) return { answer: content.answer, ids: content }
      try {
        const answer = await work(content)
        await finish(claimed, answer)
        return { answer, ids: content }
      } catch (error) {
        // A refusal is final; after any other failure the retry goes on from here.
        if (error instanceof ApiError && error.status < 500) await remove(claimed.object)
        throw error
      }
    },
    async sweep() {
      const { items } = await cluster.list('ConfigMap', { labels: { [labels.component]: idempotencyComponent } })
      for (const item of items) if (contentOf(item) === undefined) await remove(item)
    },
  }
}
