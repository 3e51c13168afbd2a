/** What a pass can meet that is neither the cluster's error nor Postgres's. */
// @ts-nocheck


/** Every port of a region's range is taken. */
export class RangeExhaustedError extends Error {
  override readonly name = 'RangeExhaustedError'
}

/** An object of another owner has the name of a child. */
export class NameTakenError extends Error {
  override readonly name = 'NameTakenError'
  constructor(kind: string, { namespace, name }: { namespace?: string; name: string }) {
    super(
      `${kind} ${namespace}/${name} belongs to someone else: the database's own can be made when it is gone. Look at what it holds before you delete it`,
    )
  }
}

/** Something of a database that is being deleted turned up that no cache knew of; it is deleted first. */
export class LeftoversError extends Error {
  override readonly name = 'LeftoversError'
}
