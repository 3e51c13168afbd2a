/**
 * The one place where objects change. Each write is decided on the committed object and gets the next version of the
 * store; it is on disk before anyone sees it, reader, watcher or writer. Writes to one object follow one another;
 * writes to different objects that come together share one trip to the disk.
 */
import type { Logger } from 'pino'
import { ClusterError, diskFullMessage } from '../../cluster/errors.ts'
import type { KindName } from '../../cluster/kinds.ts'
import type { Disk } from './disk.ts'
import { DirectoryGone } from './errors.ts'
import { type Change, createHistory, type History } from './history.ts'
import { freeze, type JsonObject } from './json.ts'
import { type ObjectReference, placeOf, withMetadata } from './objects.ts'
import { isTaken } from './pressure.ts'
import { goneText, type LogRecord, putText } from './records.ts'
import type { State } from './state.ts'

/** What a write comes to; undefined where nothing is to be done. The current object itself means the same. */
export type Decision = { readonly object: JsonObject; readonly gone: boolean } | undefined

export type Committer = {
  /** The version of the last committed change. */
  readonly version: number
  history(kind: KindName): History
  /**
   * Decides a write on the committed object and commits it.
   * @param after a place whose own pending write is waited for first, since the decision looks at it, too
   * @returns the object as it is now; when it went, as it was
   * @throws ClusterError what `decide` throws; `Invalid` for an object too large; `Unavailable` where the disk fails
   */
  write(
    reference: ObjectReference,
    decide: (current: JsonObject | undefined) => Decision,
    after?: ObjectReference,
  ): Promise<JsonObject | undefined>
  /** Refuses writes from now on, and waits for those under way. */
  close(): Promise<void>
}

type CommitterOptions = {
  state: State
  version: number
  disk: Disk | undefined
  historyCapacity: number
  onCommit: (changes: readonly Change[]) => void
  logger: Logger
}

type Pending = LogRecord & {
  readonly previous: JsonObject | undefined
  /** The record's text. */
  readonly text: string
  settle(error?: ClusterError): void
}

/** 1.5 MiB, the API server's own limit. */
const largestObject = 1.5 * 1024 * 1024
/** One trip to the disk carries at most this much. */
const largestBatch = 8 * 1024 * 1024

export function createCommitter(options: CommitterOptions): Committer {
  const { state, disk, onCommit, logger } = options
  const histories = new Map<KindName, History>()
  const firstVersion = options.version
  let committed = firstVersion
  /** The version of the last change on its way. */
  let staged = firstVersion
  const queue: Pending[] = []
  let closed = false
  let flushing: Promise<void> | undefined
  /** Settles when the write on its way to this place has. */
  const pending = new Map<string, Promise<void>>()

  function history(kind: KindName): History {
    const existing = histories.get(kind) ?? createHistory(options.historyCapacity, firstVersion)
    histories.set(kind, existing)
    return existing
  }

  function apply(batch: readonly Pending[]): void {
    const changes = batch.map(({ version, reference, object, previous }): Change => {
      const deleted = object === undefined
      if (deleted) state.remove(reference)
      else state.put(reference, object)
      const last = deleted ? lastState(previous, version) : object
      const change = { version, reference, object: last, previous, deleted }
      history(reference.kind).push(change)
      committed = version
      return change
    })
    onCommit(changes)
    for (const { settle } of batch) settle()
  }

  async function flush(target: Disk): Promise<void> {
    while (queue.length > 0) {
      const batch = takeBatch()
      const failure = await target.append(batch.map(({ text }) => text)).then(
        () => undefined,
        (error: unknown) => ({ error }),
      )
      if (failure === undefined) apply(batch)
      else refuse([...batch, ...queue.splice(0)], failure.error)
    }
    // In the same breath as the look at the queue, so that no write falls between.
    flushing = undefined
  }

  function takeBatch(): Pending[] {
    let bytes = 0
    const count = queue.findIndex(({ text }) => {
      bytes += text.length
      return bytes > largestBatch
    })
    return queue.splice(0, count === -1 ? queue.length : Math.max(1, count))
  }

  /** Later writes were decided before the failure was known, but on nothing that failed: they can all be tried again. */
  function refuse(failed: readonly Pending[], cause: unknown): void {
    staged = committed
    const refusal = new ClusterError('Unavailable', diskMessage(cause), { cause })
    logger.error({ err: cause, writes: failed.length }, 'the store could not write; nothing of it was kept')
    for (const { settle } of failed) settle(refusal)
  }

  function stage(reference: ObjectReference, previous: JsonObject | undefined, decision: NonNullable<Decision>) {
    const version = staged + 1
    const next = freeze(withMetadata(decision.object, { resourceVersion: `${version}` }))
    const text = decision.gone ? goneText(version, reference) : putText(JSON.stringify(next))
    refuseTooLarge(reference, text)
    staged = version
    const object = decision.gone ? undefined : next
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    const settle = (error?: ClusterError): void => (error === undefined ? resolve() : reject(error))
    queue.push({ version, reference, object, previous, text, settle })
    track(placeOf(reference), promise)
    if (disk === undefined) apply(queue.splice(0))
    else flushing ??= flush(disk)
    return promise.then(() => next)
  }

  /** @throws ClusterError `Unavailable` for what a full disk has no space for */
  function requireTaken({ kind }: ObjectReference, current: JsonObject | undefined, decision: NonNullable<Decision>) {
    if (isTaken(disk?.pressure() ?? 'none', { kind, current, ...decision })) return
    throw new ClusterError('Unavailable', fullMessage)
  }

  function track(place: string, written: Promise<void>): void {
    const settled = written.catch(() => undefined).then(() => void pending.delete(place))
    pending.set(place, settled)
  }

  const busy = (reference: ObjectReference | undefined): Promise<void> | undefined =>
    reference && pending.get(placeOf(reference))

  return {
    get version() {
      return committed
    },
    history,
    async write(reference, decide, after) {
      // From the last look at what is pending to the staging nothing may come between.
      for (let wait = busy(reference) ?? busy(after); wait !== undefined; wait = busy(reference) ?? busy(after)) {
        await wait
      }
      if (closed) throw new ClusterError('Unavailable', 'the store is closed')
      const current = state.get(reference)
      const decision = decide(current)
      if (decision === undefined || (decision.object === current && !decision.gone)) return current
      requireTaken(reference, current, decision)
      return stage(reference, current, decision)
    },
    async close() {
      closed = true
      await flushing
    },
  }
}

/** What a deleted object was, under the version of its deletion. */
const lastState = (previous: JsonObject | undefined, version: number): JsonObject =>
  freeze(withMetadata(previous ?? {}, { resourceVersion: `${version}` }))

function refuseTooLarge(reference: ObjectReference, text: string): void {
  if (text.length * 3 <= largestObject) return
  const bytes = Buffer.byteLength(text)
  if (bytes <= largestObject) return
  const name = `${reference.kind} "${reference.name}"`
  throw new ClusterError('Invalid', `${name} is too large: ${bytes} bytes, where ${largestObject} are allowed`)
}

const fullMessage = `${diskFullMessage}: nothing was written; delete databases, branches or backups, or free some space, and try again`

const full = new Set(['ENOSPC', 'EDQUOT', 'EFBIG'])

const exhausted = new Set(['EMFILE', 'ENFILE'])

function diskMessage(error: unknown): string {
  if (error instanceof DirectoryGone)
    return `${error.message}; nothing is kept any more: stop Espalier, put the directory back, and start it again`
  const code = error instanceof Error && 'code' in error ? String(error.code) : 'unknown error'
  if (exhausted.has(code)) {
    return `no file can be opened any more (${code}): nothing was written; raise the limit of open files (ulimit -n)`
  }
  return full.has(code) ? fullMessage : `the store cannot write to its disk (${code}): nothing was written`
}
