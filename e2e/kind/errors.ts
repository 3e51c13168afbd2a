/** Why a cluster cannot start. The message is one line that says what to do. */
export class KindError extends Error {
  override readonly name = 'KindError'
}
