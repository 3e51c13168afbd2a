/** Why a cluster cannot start, in one line that says what to do. */
export class KindError extends Error {
  override readonly name = 'KindError'
}
