/**
 * Idempotency-Key: for 24 hours, a repeated write with the same key and body is not executed again and gets the first
 * response. A record is created before the work, and stores the response once the work is done.
 *
 * If the process crashes in between, the record has no response. A retry continues with the same ids, which locate what
 * was already written: a new object by its id, a change by its annotation (see keyed-writes.ts), a deletion by its record.
 * Refused work releases the key.
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
import { createRecordLimit, removeRecord } from './record-limit.ts'

/** One attempt of a write. */
export type Attempt = Ids & {
  /** The name of the record. undefined: the request has no key, so there is no other attempt. */
  record: string | undefined
  /** Whether an earlier attempt exists. Its progress is unknown. */
  isRepeated: boolean
  /** The object that an earlier attempt started to delete. */
  begun: BegunDeletion | undefined
  /** Must be called before an object is deleted, because afterwards no object records the request. */
  begin: (deletion: BegunDeletion) => Promise<void>
}

/** The response, new or stored, and the ids that the work used. */
type Done = { answer: Answer; ids: Ids }
type Work = (attempt: Attempt) => Promise<Answer>

export type Idempotency = {
  /**
   * Executes the work once. `work` receives the ids to use, which are the same in every retry. Without a key, the work
   * is always executed.
   * @throws ApiError 400 if the key belongs to another request; 429 if the tenant has used up its keys
   */
  once: (request: IdempotentRequest, fresh: () => Ids, work: Work) => Promise<Done>
  /** Whether the record of this write has no response yet, so that a retry may have to find the completed work. */
  isOpen: (namespace: string, name: string, taskId: string) => Promise<boolean>
  /** Deletes expired records. */
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

/**
 * The object that was created with a key is deleted. The key stays used, because a repeated request would otherwise
 * create the object again.
 */
export class SpentKeyError extends ApiError {
  constructor() {
    super(409, 'Idempotency-Key: the object created with it is deleted; use a new key to create another one')
  }
}

/** A record in the cluster, its content, and whether it existed before. */
type StoredRecord = { object: ConfigMap; content: Content; isRepeated: boolean }

/** How often a request polls a record while another request works on it. */
const maximumAttempts = 5

const withoutRecord = (ids: Ids): Attempt => ({
  ...ids,
  record: undefined,
  isRepeated: false,
  begun: undefined,
  begin: async () => {},
})

export function createIdempotency(cluster: Cluster, now: () => number, mostRecords: number): Idempotency {
  const recordLimit = createRecordLimit(cluster, now, mostRecords)

  /** Returns a record, and deletes it if it has expired. */
  async function findRecord(namespace: string, name: string): Promise<StoredRecord | undefined> {
    const object = await cluster.get('ConfigMap', { namespace, name })
    const content = object && contentOf(object, now())
    if (object !== undefined && content === undefined) await removeRecord(cluster, object)
    return object && content && { object, content, isRepeated: true }
  }

  /**
   * Returns the record with that name: the request's own record, or an earlier record. Returns undefined if the tenant
   * has no namespace yet.
   */
  async function findOrCreate(namespace: string, name: string, content: Content): Promise<StoredRecord | undefined> {
    for (;;) {
      try {
        const create = () => cluster.create('ConfigMap', draftOf(namespace, name, content))
        return { object: await recordLimit.create(namespace, create), content, isRepeated: false }
      } catch (error) {
        if (isClusterError(error, 'NotFound')) return undefined
        const isFull = error instanceof ApiError && error.status === 429
        if (!isFull && !isClusterError(error, 'AlreadyExists')) throw error
        const found = await findRecord(namespace, name)
        if (found !== undefined) return found
        if (isFull) throw error
      }
    }
  }

  /** Writes the result to a record. A concurrent duplicate with the same ids may have written first. */
  async function write(stored: StoredRecord, change: Partial<Content>): Promise<void> {
    const content = { ...stored.content, ...change }
    stored.object = await cluster.replace('ConfigMap', { ...stored.object, data: dataOf(content) })
    stored.content = content
  }

  async function finish(stored: StoredRecord, answer: Answer): Promise<void> {
    try {
      await write(stored, { answer })
    } catch (error) {
      if (!isClusterError(error, 'Conflict', 'NotFound')) throw error
    }
  }

  async function begin(stored: StoredRecord, begun: BegunDeletion): Promise<void> {
    try {
      await write(stored, { begun })
    } catch (error) {
      if (!isClusterError(error, 'Conflict', 'NotFound')) throw error
      throw conflict('another request with the same Idempotency-Key is running: retry', retryAfter.conflict)
    }
  }

  const attemptOf = (stored: StoredRecord, name: string): Attempt => ({
    objectId: stored.content.objectId,
    taskId: stored.content.taskId,
    record: name,
    isRepeated: stored.isRepeated,
    begun: stored.content.begun,
    begin: begun => begin(stored, begun),
  })

  return {
    async once({ namespace, key, method, path, body }, fresh, work) {
      const ids = fresh()
      if (key === undefined) return { answer: await work(withoutRecord(ids)), ids }
      const request = requestDigest(canonicalJson({ method, path, body: body ?? null }))
      const name = recordName(key)
      for (let attempts = 1; ; attempts++) {
        const stored = await findOrCreate(namespace, name, { request, claimedAt: now(), ...ids })
        if (stored === undefined) return { answer: await work(withoutRecord(ids)), ids }
        const { content } = stored
        if (content.request !== request) throw badRequest('Idempotency-Key: already used for another request')
        if (content.answer !== undefined) return { answer: content.answer, ids: content }
        try {
          const answer = await work(attemptOf(stored, name))
          await finish(stored, answer)
          return { answer, ids: content }
        } catch (error) {
          // A refusal is final. After any other failure, a retry continues from here.
          if (!(error instanceof ApiError) || error.status >= 500 || error instanceof SpentKeyError) throw error
          const isOwn = await removeRecord(cluster, stored.object)
          // Another request has continued the work, so its result is the response.
          if (isOwn || attempts === maximumAttempts) throw error
        }
      }
    },
    async isOpen(namespace, name, taskId) {
      const content = (await findRecord(namespace, name))?.content
      return content?.taskId === taskId && content.answer === undefined
    },
    sweep: recordLimit.sweep,
  }
}
