/** What stops a load. Its message is for the person who started it: it names the file or the option and says what to do. The name of a file does not steer the terminal. */
export class LoadError extends Error {
  constructor(message: string, cause?: unknown) {
    super(message.replaceAll(/[^\P{Cc}\n\t]/gu, '?'), { cause })
    this.name = 'LoadError'
  }
}
