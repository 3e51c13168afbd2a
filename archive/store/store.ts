export type StoredObject = { readonly name: string; readonly size: number; readonly modifiedAt: Date }

/** `first`: the first byte; `length`: the maximum number of bytes. */
type ByteRange = { readonly first: number; readonly length: number }

/**
 * The object store: an S3 bucket or a directory. A name has at most 1,000 characters, and consists of elements that are
 * joined by `/`. An element has 1 to 255 characters of `A-Z a-z 0-9 . _ -`, and does not begin with a dot. `a` and
 * `a/b` must not both exist: in a directory store, `a` would be a file and a directory. If the store fails, every
 * method rejects with ArchiveError `store`. If the error's `isTemporary` is true, a retry may succeed.
 */
export type ObjectStore = {
  /** For logs and errors, without credentials: `s3://bucket/prefix` or `file:///path`. */
  readonly location: string
  /** Whether `create` refuses a second writer. If false, two concurrent writers of the same name may both succeed. */
  readonly isConditional: boolean
  /**
   * Writes an object completely or not at all. Readers never receive an incomplete object. Memory use does not grow
   * with the object's size.
   * @returns `exists` if an object with this name exists; it stays unchanged
   */
  create(name: string, bytes: AsyncIterable<Uint8Array>, signal?: AbortSignal): Promise<'created' | 'exists'>
  /** Undefined if the object does not exist. The caller reads the stream to its end, or closes it. */
  read(name: string, range?: ByteRange, signal?: AbortSignal): Promise<AsyncIterable<Uint8Array> | undefined>
  /** Undefined if the object does not exist. */
  stat(name: string): Promise<StoredObject | undefined>
  /** Objects with the prefix, sorted by the bytes of their names. With `after`, only objects with greater names. */
  list(prefix: string, after?: string): AsyncIterable<StoredObject>
  /** Does nothing if the object does not exist. */
  delete(name: string): Promise<void>
  /** Deletes incomplete uploads that were started before `before`. @returns their number */
  deleteAbandonedUploads(prefix: string, before: Date): Promise<number>
  close(): void
}

const element = /^[A-Za-z0-9._-]{1,255}$/
const longestName = 1000

/** Whether `name` is valid. S3 allows 1,024 bytes, including the store's prefix. */
export const isObjectName = (name: string): boolean =>
  name.length <= longestName &&
  name.split('/').every(part => element.test(part) && part !== '.' && part !== '..' && !part.startsWith('.'))
