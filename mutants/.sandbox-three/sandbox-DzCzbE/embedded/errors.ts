/** What keeps an embedded installation from starting, in words for its user. */
// @ts-nocheck

export class EmbeddedError extends Error {
  override readonly name = 'EmbeddedError'
}
