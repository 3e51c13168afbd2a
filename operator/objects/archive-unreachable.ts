/** The archive, or the agent that writes to it, did not confirm a deletion. The operator repeats the request. */
export class ArchiveUnreachableError extends Error {
  override readonly name = 'ArchiveUnreachableError'
}
