/** What stops a load. Its message is for whoever started it: it names the file or the option and says what to do. */
export class LoadError extends Error {
  constructor(message: string, cause?: unknown) {
    super(message, { cause })
    this.name = 'LoadError'
  }
}
