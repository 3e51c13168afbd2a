/**
 * The object store: an S3 bucket or a directory. Names are paths of segments of `A-Z a-z 0-9 . _ -`, joined by `/`. No
 * name is a directory of another name: `a` and `a/b` never both exist, since a file is not a directory. Every method
 * rejects with ArchiveError `store` if the store fails; `isTemporary` says whether to retry.
 */
export type StoredObject = { readonly name: string; readonly size: number; readonly modifiedAt: Date }

/** `first`: the first byte; `length`: the maximum number of bytes. */
type ByteRange = { readonly first: number; readonly length: number }

export type ObjectStore = {
  /** For logs and errors, without credentials: `s3://bucket/prefix` or `file:///path`. */
  readonly location: string
  /**
   * Whether `create` alone excludes a second writer. If not, two that write one name at the same time may both succeed.
   */
  readonly isConditional: boolean
  /**
   * Writes an object completely or not at all; a reader never sees a part of it. Memory is bounded for any size.
   * @returns `exists` if an object of this name exists, which stays unchanged
   */
  create(name: string, bytes: AsyncIterable<Uint8Array>, signal?: AbortSignal): Promise<'created' | 'exists'>
  /** Undefined if the object does not exist. The caller reads the stream to its end, or closes it. */
  read(name: string, range?: ByteRange, signal?: AbortSignal): Promise<AsyncIterable<Uint8Array> | undefined>
  /** Undefined if there is no such object. */
  stat(name: string): Promise<StoredObject | undefined>
  /** Objects whose names begin with `prefix`, sorted by name (bytes), only those after `after`. */
  list(prefix: string, after?: string): AsyncIterable<StoredObject>
  /** Does nothing if the object does not exist. */
  delete(name: string): Promise<void>
  /** Ends incomplete uploads that were started before `before`. @returns their number */
  deleteAbandonedUploads(prefix: string, before: Date): Promise<number>
  close(): void
}

const segment = /^[A-Za-z0-9._-]{1,255}$/
const longestName = 1000

/** Whether `name` is valid in every store: S3 allows 1,024 bytes. */
export const isObjectName = (name: string): boolean =>
  name.length <= longestName &&
  name.split('/').every(part => segment.test(part) && part !== '.' && part !== '..' && !part.startsWith('.'))
