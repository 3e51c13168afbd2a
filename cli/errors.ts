/** Failures of client commands, and the exit code of each. docs/cli.md documents the codes. */

export const exitCodes = {
  ok: 0,
  failed: 1,
  usage: 2,
  notFound: 3,
  notAuthorised: 4,
  timeout: 5,
} as const
type ExitCode = (typeof exitCodes)[keyof typeof exitCodes]

/**
 * A command failed. Escape a server's text before you add it to the message: `runClient` does not escape line breaks.
 */
export class CommandFailure extends Error {
  override readonly name = 'CommandFailure'
  readonly exitCode: ExitCode

  constructor(message: string, exitCode: ExitCode = exitCodes.failed) {
    super(message)
    this.exitCode = exitCode
  }
}
