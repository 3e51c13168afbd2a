/**
 * Idempotency-Key: within 24 hours a repeated write with the same key and body does nothing twice and gets the first
 * one's answer. A record is claimed before the work, and holds the answer once the work is done.
 *
 * A process that dies in between leaves a claim without an answer. A retry goes on with the same ids, by which it finds what was
 * made already: a new object by its id, a change by its mark (see marks.ts), a deletion by what the record says of it. Work that
 * is refused gives the key back.
 */
import { type Cluster, type ConfigMap, isClusterError } from '../../cluster/index.ts'
import { canonicalJson } from '../../crds/index.ts'
import { ApiError, badRequest, conflict, retryAfter } from '../errors.ts'
import {
  type Answer,
  type BegunDeletion,
  type Content,
  contentOf,
  dataOf,
  draftOf,
  type Ids,
  recordName,
  requestDigest,
} from './record.ts'
import { createRoom, removeRecord } from './room.ts'

/** One try of a write. */
export type Attempt = Ids & {
  /** The name of the record; undefined where nothing is kept, so that there is no other try. */
  record: string | undefined
  /** Another try came before, and nobody knows how far. */
  isRepeated: boolean
  /** What an earlier try has begun to delete. */
  begun: BegunDeletion | undefined
  /** To be called before an object is deleted, as nothing tells afterwards by whom it was. */
  begin: (deletion: BegunDeletion) => Promise<void>
}

/** The answer, be it of now or of before, and the ids that the work has used. */
type Done = { answer: Answer; ids: Ids }
type Work = (attempt: Attempt) => Promise<Answer>

export type Idempotency = {
  /**
   * Does the work once: `work` gets the ids to use, the same in every retry. Without a key it is simply done.
   * @throws ApiError 400 where the key stood for another request, 429 where the tenant may have no more keys
   */
  once: (request: IdempotentRequest, fresh: () => Ids, work: Work) => Promise<Done>
  /** Whether the record of this write has no answer yet, so that there may be a retry that has to find what was done. */
  isOpen: (namespace: string, name: string, taskId: string) => Promise<boolean>
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

/** What a key has made is gone: the key stays spent, or a request that is sent again would make it again. */
export class SpentKeyError extends ApiError {
  constructor() {
    super(409, 'Idempotency-Key: what was made with it is gone: to make another one, take another key')
  }
}

/** A record in the cluster, what it says, and whether it was there before. */
type Claim = { object: ConfigMap; content: Content; isRepeated: boolean }

/** How often a request looks again at a record with which others go on meanwhile. */
const mostLooks = 5

const withoutRecord = (ids: Ids): Attempt => ({
  ...ids,
  record: undefined,
  isRepeated: false,
  begun: undefined,
  begin: async () => {},
})

export function createIdempotency(cluster: Cluster, now: () => number, mostRecords: number): Idempotency {
  const room = createRoom(cluster, now, mostRecords)

  /** One whose time is over is removed. */
  async function standing(namespace: string, name: string): Promise<Claim | undefined> {
    const object = await cluster.get('ConfigMap', { namespace, name })
    const content = object && contentOf(object, now())
    if (object !== undefined && content === undefined) await removeRecord(cluster, object)
    return object && content && { object, content, isRepeated: true }
  }

  /** The record that stands under the name: ours, or the one that was there first. Undefined: the tenant has nothing yet, no place for one either. */
  async function claim(namespace: string, name: string, content: Content): Promise<Claim | undefined> {
    for (;;) {
      try {
        const create = () => cluster.create('ConfigMap', draftOf(namespace, name, content))
        return { object: await room.make(namespace, create), content, isRepeated: false }
      } catch (error) {
        if (isClusterError(error, 'NotFound')) return undefined
        const isFull = error instanceof ApiError && error.status === 429
        if (!isFull && !isClusterError(error, 'AlreadyExists')) throw error
        const found = await standing(namespace, name)
        if (found !== undefined) return found
        if (isFull) throw error
      }
    }
  }

  /** Writes what has become of a claim; a concurrent duplicate with the same ids may have been quicker. */
  async function write(claimed: Claim, change: Partial<Content>): Promise<void> {
    const content = { ...claimed.content, ...change }
    claimed.object = await cluster.replace('ConfigMap', { ...claimed.object, data: dataOf(content) })
    claimed.content = content
  }

  async function finish(claimed: Claim, answer: Answer): Promise<void> {
    try {
      await write(claimed, { answer })
    } catch (error) {
      if (!isClusterError(error, 'Conflict', 'NotFound')) throw error
    }
  }

  async function begin(claimed: Claim, begun: BegunDeletion): Promise<void> {
    try {
      await write(claimed, { begun })
    } catch (error) {
      if (!isClusterError(error, 'Conflict', 'NotFound')) throw error
      throw conflict('another request with the same Idempotency-Key is under way: try again', retryAfter.conflict)
    }
  }

  const attemptOf = (claimed: Claim, name: string): Attempt => ({
    objectId: claimed.content.objectId,
    taskId: claimed.content.taskId,
    record: name,
    isRepeated: claimed.isRepeated,
    begun: claimed.content.begun,
    begin: begun => begin(claimed, begun),
  })

  return {
    async once({ namespace, key, method, path, body }, fresh, work) {
      const ids = fresh()
      if (key === undefined) return { answer: await work(withoutRecord(ids)), ids }
      const request = requestDigest(canonicalJson({ method, path, body: body ?? null }))
      const name = recordName(key)
      for (let looks = 1; ; looks++) {
        const claimed = await claim(namespace, name, { request, claimedAt: now(), ...ids })
        if (claimed === undefined) return { answer: await work(withoutRecord(ids)), ids }
        const { content } = claimed
        if (content.request !== request) throw badRequest('Idempotency-Key: was already used for another request')
        if (content.answer !== undefined) return { answer: content.answer, ids: content }
        try {
          const answer = await work(attemptOf(claimed, name))
          await finish(claimed, answer)
          return { answer, ids: content }
        } catch (error) {
          // A refusal is final; after any other failure the retry goes on from here.
          if (!(error instanceof ApiError) || error.status >= 500 || error instanceof SpentKeyError) throw error
          const isOurs = await removeRecord(cluster, claimed.object)
          // Somebody has gone on with it: what came of that is the answer.
          if (isOurs || looks === mostLooks) throw error
        }
      }
    },
    async isOpen(namespace, name, taskId) {
      const content = (await standing(namespace, name))?.content
      return content?.taskId === taskId && content.answer === undefined
    },
    sweep: room.sweep,
  }
}
