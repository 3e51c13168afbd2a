/** Why an embedded installation cannot start, in a message for its user. */
export class EmbeddedError extends Error {
  override readonly name = 'EmbeddedError'
}
