/**
 * Failures of commands: one class for each kind. The kind decides the exit code, so that failures of one kind have the
 * same code in all commands. docs/cli.md documents the codes.
 */
import { UsageError } from '../server/usage-error.ts'

export { UsageError }

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
 * A failure that the classes below do not cover. Escape a server's text before you add it to a message: `runClient`
 * escapes other control characters, but not line breaks.
 */
export class CommandFailure extends Error {
  override readonly name: string = 'CommandFailure'
}

/** No object has the name or id. */
export class NotFound extends CommandFailure {
  override readonly name = 'NotFound'
}

/** The user has to log in, or has no permission. */
export class NotAuthorised extends CommandFailure {
  override readonly name = 'NotAuthorised'
}

/** The command stopped waiting. */
export class TimedOut extends CommandFailure {
  override readonly name = 'TimedOut'
}

/**
 * A request failed. The response's status decides the exit code.
 *
 * - `request`: its method and path, which the message does not contain.
 * - `status`: undefined if no complete response arrived.
 * - `isFromApi`: whether the API sent the response, and not a proxy in front of the API.
 */
export class ApiFailure extends CommandFailure {
  override readonly name = 'ApiFailure'
  readonly request: string
  readonly status: number | undefined
  readonly isFromApi: boolean

  constructor(message: string, { request, status, isFromApi = false }: ApiFailureDetails) {
    super(message)
    this.request = request
    this.status = status
    this.isFromApi = isFromApi
  }
}
type ApiFailureDetails = { request: string; status?: number; isFromApi?: boolean }

/** A proxy can also return 401 or 403. A 400 or 404 has its own exit code only if the API sent it. */
function codeOfStatus({ status, isFromApi }: ApiFailure): ExitCode {
  if (status === 401 || status === 403) return exitCodes.notAuthorised
  if (status === 400 && isFromApi) return exitCodes.usage
  return status === 404 && isFromApi ? exitCodes.notFound : exitCodes.failed
}

export function exitCodeOf(error: unknown): ExitCode {
  if (error instanceof UsageError) return exitCodes.usage
  if (error instanceof NotFound) return exitCodes.notFound
  if (error instanceof NotAuthorised) return exitCodes.notAuthorised
  if (error instanceof TimedOut) return exitCodes.timeout
  if (error instanceof ApiFailure) return codeOfStatus(error)
  return exitCodes.failed
}
