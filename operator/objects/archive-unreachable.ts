/** The archive, or the agent that writes to it, did not confirm a deletion. The request is repeated. */
export class ArchiveUnreachableError extends Error {
  override readonly name = 'ArchiveUnreachableError'
}
