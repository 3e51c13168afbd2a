/** A build failure. Its message is one line that says what to do. */
export class ImageError extends Error {
  override readonly name = 'ImageError'
}
