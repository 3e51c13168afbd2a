/** Faults of an object in the archive, or of the store. Clients receive the message, so it must contain no secret. */
type ArchiveFault =
  /** An object with this name and other content exists: two servers may archive under one identity. */
  | { kind: 'conflict'; name: string; stored: string; received: string }
  /** The object is missing, truncated or changed, or the archive did not write it. */
  | { kind: 'damaged'; name: string; detail: string }
  /** The object was encrypted with a key that this program does not have. */
  | { kind: 'unknown key'; name: string; keyId: string }
  /** The received content does not have the stated digest or size. */
  | { kind: 'content differs'; name: string; detail: string }
  /**
   * The archive could not reach the store, or the store refused the request.
   *
   * - `name`: an object's name or prefix, or the store's location
   * - `code`: the store's name for the error, or a code of the archive: `Gone` if the object was deleted during the
   *   request, `NotStored` if the store acknowledged the object but does not have it
   */
  | { kind: 'store'; name: string; code: string; detail: string; isTemporary: boolean }
  /** The store was created with a key that is not configured, or it has objects but no key-check object. */
  | { kind: 'wrong key'; detail: string }

const messageOf = (fault: ArchiveFault): string => {
  switch (fault.kind) {
    case 'conflict':
      return `${fault.name}: the archive has other content under this name (stored SHA-256 ${fault.stored}, received ${fault.received}); check whether two servers archive under one identity`
    case 'damaged':
      return `${fault.name}: the object is damaged: ${fault.detail}`
    case 'unknown key':
      return `${fault.name}: the object is encrypted with the key ${fault.keyId}, which is not configured`
    case 'content differs':
      return `${fault.name}: the received content does not have the stated digest or size: ${fault.detail}`
    case 'store':
      // The store did not fail: another request deleted the object.
      if (fault.code === 'Gone') return `${fault.name}: ${fault.detail}`
      return `${fault.name}: the object store failed: ${fault.code}: ${fault.detail}`
    case 'wrong key':
      return fault.detail
  }
}

export class ArchiveError extends Error {
  readonly fault: ArchiveFault

  constructor(fault: ArchiveFault, options?: ErrorOptions) {
    super(messageOf(fault), options)
    this.name = 'ArchiveError'
    this.fault = fault
  }
}
