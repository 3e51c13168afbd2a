/**
 * An error that stops a load. The message is for the user: it names the file or the option, and the remedy. File names
 * in it contain no terminal control sequences.
 */
export class LoadError extends Error {
  constructor(message: string, cause?: unknown) {
    super(message.replaceAll(/[^\P{Cc}\n\t]/gu, '?'), { cause })
    this.name = 'LoadError'
  }
}
