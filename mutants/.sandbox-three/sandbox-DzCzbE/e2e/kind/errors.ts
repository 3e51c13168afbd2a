/** What keeps a cluster from coming up, in one line that says what to do. */
// @ts-nocheck

export class KindError extends Error {
  override readonly name = 'KindError'
}
