/**
 * Where objects are kept: an S3 bucket or a directory. Names are paths of segments of `A-Z a-z 0-9 . _ -`, joined by `/`. No name
 * continues another one behind a slash: `a` and `a/b` are never both names, since a file is no directory.
 * Every method rejects with ArchiveError `store` where the store fails; `isTemporary` says whether to try again.
 */
export type StoredObject = { readonly name: string; readonly size: number; readonly modifiedAt: Date }

/** `first`: the first byte; `length`: how many bytes at most. */
type ByteRange = { readonly first: number; readonly length: number }

export type ObjectStore = {
  /** For logs and errors, without credentials: `s3://bucket/prefix` or `file:///path`. */
  readonly location: string
  /** Whether `create` alone keeps two writers apart. If not, two that write one name at the same time may both succeed. */
  readonly isConditional: boolean
  /**
   * Writes an object as a whole or not at all; a reader never sees a part of it. Memory is bounded whatever the size.
   * @returns `exists` if there is an object of this name, which stays as it is
   */
  create(name: string, bytes: AsyncIterable<Uint8Array>, signal?: AbortSignal): Promise<'created' | 'exists'>
  /** Undefined if there is no such object. The caller reads the stream to its end, or ends it. */
  read(name: string, range?: ByteRange, signal?: AbortSignal): Promise<AsyncIterable<Uint8Array> | undefined>
  /** Undefined if there is no such object. */
  stat(name: string): Promise<StoredObject | undefined>
  /** Objects whose names begin with `prefix`, in the order of their names (by bytes), those after `after` only. */
  list(prefix: string, after?: string): AsyncIterable<StoredObject>
  /** Does nothing where there is no such object. */
  delete(name: string): Promise<void>
  /** Ends uploads that were begun before `before` and not completed. @returns how many */
  deleteAbandonedUploads(prefix: string, before: Date): Promise<number>
  close(): void
}

const segment = /^[A-Za-z0-9._-]{1,255}$/
const longestName = 1000

/** Whether `name` can be the name of an object in every store: S3 allows 1,024 bytes. */
export const isObjectName = (name: string): boolean =>
  name.length <= longestName &&
  name.split('/').every(part => segment.test(part) && part !== '.' && part !== '..' && !part.startsWith('.'))
