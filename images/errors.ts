/** A build failure, in one line that says what to do. */
export class ImageError extends Error {
  override readonly name = 'ImageError'
}
