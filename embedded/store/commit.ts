/**
 * Commits all writes to objects. Each write starts from the committed object, and gets the store's next version. A
 * write is on disk before any reader, watcher or other writer sees its result. Writes to one object run one after
 * another. Concurrent writes to different objects share one append to the disk.
 */
import type { Logger } from 'pino'
import { ClusterError, diskFullMessage } from '../../cluster/errors.ts'
import type { KindName } from '../../cluster/kinds.ts'
import type { Disk } from './disk.ts'
import { DirectoryMissing } from './errors.ts'
import { type Change, createHistory, type History } from './history.ts'
import { freeze, type JsonObject } from './json.ts'
import { keyOf, type ObjectReference, withMetadata } from './objects.ts'
import { isAccepted } from './pressure.ts'
import { deletionText, type LogRecord, putText } from './records.ts'
import type { State } from './state.ts'

/** The result of a write. Undefined, or the current object itself, means no change. */
export type Decision = { readonly object: JsonObject; readonly isDeleted: boolean } | undefined

export type Committer = {
  /** The version of the last committed change. */
  readonly version: number
  history(kind: KindName): History
  /**
   * Calls `decide` with the committed object, and commits the result.
   * @param after an object that `decide` also reads: the write waits for pending writes to this object
   * @returns the object after the write; if it was deleted, its last state
   * @throws ClusterError every error of `decide`; `Invalid` for an object that is too large; `Unavailable` if the disk
   * fails
   */
  write(
    reference: ObjectReference,
    decide: (current: JsonObject | undefined) => Decision,
    after?: ObjectReference,
  ): Promise<JsonObject | undefined>
  /** Refuses further writes, and waits for pending ones. */
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
  /** The text of the record. */
  readonly text: string
  settle(error?: ClusterError): void
}

/** 1.5 MiB, as in kube-apiserver. */
const largestObject = 1.5 * 1024 * 1024
/** The largest append to the disk. */
const largestBatch = 8 * 1024 * 1024

export function createCommitter(options: CommitterOptions): Committer {
  return new StoreCommitter(options)
}

class StoreCommitter implements Committer {
  readonly #state: State
  readonly #disk: Disk | undefined
  readonly #historyCapacity: number
  readonly #onCommit: CommitterOptions['onCommit']
  readonly #logger: Logger
  readonly #firstVersion: number
  readonly #histories = new Map<KindName, History>()
  readonly #queue: Pending[] = []
  /** By object key: resolves when the pending write to this object has finished. */
  readonly #pending = new Map<string, Promise<void>>()
  #committed: number
  /** The version of the last pending change. */
  #staged: number
  #closed = false
  #flushing: Promise<void> | undefined

  constructor({ state, version, disk, historyCapacity, onCommit, logger }: CommitterOptions) {
    this.#state = state
    this.#disk = disk
    this.#historyCapacity = historyCapacity
    this.#onCommit = onCommit
    this.#logger = logger
    this.#firstVersion = version
    this.#committed = version
    this.#staged = version
  }

  get version(): number {
    return this.#committed
  }

  history(kind: KindName): History {
    const existing = this.#histories.get(kind) ?? createHistory(this.#historyCapacity, this.#firstVersion)
    this.#histories.set(kind, existing)
    return existing
  }

  async write(
    reference: ObjectReference,
    decide: (current: JsonObject | undefined) => Decision,
    after?: ObjectReference,
  ): Promise<JsonObject | undefined> {
    // Between the last check for pending writes and `#stage` there is no `await`, so that no other write is staged.
    for (let wait = this.#wait(reference, after); wait !== undefined; wait = this.#wait(reference, after)) await wait
    if (this.#closed) throw new ClusterError('Unavailable', 'the store is closed')
    const current = this.#state.get(reference)
    const decision = decide(current)
    if (decision === undefined || (decision.object === current && !decision.isDeleted)) return current
    this.#requireAccepted(reference, current, decision)
    return this.#stage(reference, current, decision)
  }

  async close(): Promise<void> {
    this.#closed = true
    await this.#flushing
  }

  #wait(reference: ObjectReference, after: ObjectReference | undefined): Promise<void> | undefined {
    return this.#pending.get(keyOf(reference)) ?? (after && this.#pending.get(keyOf(after)))
  }

  /** @throws ClusterError `Unavailable` if the disk is full and the write is refused */
  #requireAccepted({ kind }: ObjectReference, current: JsonObject | undefined, decision: NonNullable<Decision>): void {
    if (isAccepted(this.#disk?.pressure() ?? 'none', { kind, current, ...decision })) return
    throw new ClusterError('Unavailable', fullMessage)
  }

  #stage(
    reference: ObjectReference,
    previous: JsonObject | undefined,
    decision: NonNullable<Decision>,
  ): Promise<JsonObject> {
    const version = this.#staged + 1
    const next = freeze(withMetadata(decision.object, { resourceVersion: `${version}` }))
    const text = decision.isDeleted ? deletionText(version, reference) : putText(JSON.stringify(next))
    refuseTooLarge(reference, text)
    this.#staged = version
    const object = decision.isDeleted ? undefined : next
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    const settle = (error?: ClusterError): void => (error === undefined ? resolve() : reject(error))
    this.#queue.push({ version, reference, object, previous, text, settle })
    this.#track(keyOf(reference), promise)
    if (this.#disk === undefined) this.#apply(this.#queue.splice(0))
    else this.#flushing ??= this.#flush(this.#disk)
    return promise.then(() => next)
  }

  #track(key: string, written: Promise<void>): void {
    const tracked = written.catch(() => undefined).then(() => void this.#pending.delete(key))
    this.#pending.set(key, tracked)
  }

  async #flush(disk: Disk): Promise<void> {
    while (this.#queue.length > 0) {
      const batch = this.#takeBatch()
      const failure = await disk.append(batch.map(({ text }) => text)).then(
        () => undefined,
        (error: unknown) => ({ error }),
      )
      if (failure === undefined) this.#apply(batch)
      else this.#refuse([...batch, ...this.#queue.splice(0)], failure.error)
    }
    // Set in the same event loop turn as the last check of the queue, so that no queued write is missed.
    this.#flushing = undefined
  }

  #takeBatch(): Pending[] {
    let bytes = 0
    const count = this.#queue.findIndex(({ text }) => {
      bytes += text.length
      return bytes > largestBatch
    })
    return this.#queue.splice(0, count === -1 ? this.#queue.length : Math.max(1, count))
  }

  #apply(batch: readonly Pending[]): void {
    const changes = batch.map(({ version, reference, object, previous }): Change => {
      const deleted = object === undefined
      if (deleted) this.#state.remove(reference)
      else this.#state.put(reference, object)
      const last = deleted ? lastState(previous, version) : object
      const change = { version, reference, object: last, previous, deleted }
      this.history(reference.kind).push(change)
      this.#committed = version
      return change
    })
    this.#onCommit(changes)
    for (const { settle } of batch) settle()
  }

  /** Refuses the failed batch and all queued writes. The store has stored no part of them, so clients can retry. */
  #refuse(failed: readonly Pending[], cause: unknown): void {
    this.#staged = this.#committed
    const refusal = new ClusterError('Unavailable', diskMessage(cause), { cause })
    this.#logger.error(
      { err: cause, writes: failed.length },
      'cannot write to the disk; refused all pending writes and stored no part of them',
    )
    for (const { settle } of failed) settle(refusal)
  }
}

/** Returns a deleted object's last state, with the version of its deletion. */
const lastState = (previous: JsonObject | undefined, version: number): JsonObject =>
  freeze(withMetadata(previous ?? {}, { resourceVersion: `${version}` }))

function refuseTooLarge(reference: ObjectReference, text: string): void {
  if (text.length * 3 <= largestObject) return
  const bytes = Buffer.byteLength(text)
  if (bytes <= largestObject) return
  const name = `${reference.kind} "${reference.name}"`
  throw new ClusterError('Invalid', `${name} is too large: ${bytes} bytes; at most ${largestObject} are allowed`)
}

const fullMessage = `${diskFullMessage}; nothing was written; free disk space, or delete databases, branches or backups, then retry`

/** Messages with a remedy, by error code. */
const remedies: Readonly<Record<string, string>> = {
  ENOSPC: fullMessage,
  EDQUOT: fullMessage,
  EFBIG: 'a file of the store exceeds the file size limit (EFBIG); nothing was written; raise the limit (ulimit -f)',
  EMFILE: 'too many open files (EMFILE); nothing was written; raise the limit (ulimit -n)',
  ENFILE: 'too many open files on this machine (ENFILE); nothing was written; raise the limit (sysctl fs.file-max)',
}

function diskMessage(error: unknown): string {
  if (error instanceof DirectoryMissing)
    return `${error.message}; writes are refused: stop Espalier, put the directory back, then start Espalier again`
  const code = error instanceof Error && 'code' in error ? String(error.code) : 'unknown error'
  return remedies[code] ?? `the store cannot write to its disk (${code}); nothing was written`
}
