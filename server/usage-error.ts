/** An error that the user can fix: printed as one line, without a stack; the exit code is 1 (2 for wrong usage). */
export class UsageError extends Error {
  override readonly name = 'UsageError'
}
