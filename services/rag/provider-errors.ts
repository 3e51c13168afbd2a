/**
 * Converts provider failures for clients: without the provider's message, which may contain a part of the request. The
 * log has the message.
 */
import { ProviderError } from '../providers/errors.ts'
import { RagError, type RagErrorCode } from './errors.ts'

/** Returns other errors unchanged. If the signal has aborted, returns its reason. */
export function ofProvider(error: unknown, signal: AbortSignal, code?: RagErrorCode): unknown {
  if (signal.aborted) return signal.reason
  if (!(error instanceof ProviderError)) return error
  return new RagError(code ?? codeOf(error), error.summary, error)
}

const codeOf = ({ kind }: ProviderError): RagErrorCode => (kind === 'timeout' ? 'REQUEST_TIMEOUT' : 'EXECUTION_ERROR')

/** The reason for the log. */
export const reasonOf = (error: RagError): string =>
  error.cause instanceof ProviderError ? error.cause.message : error.message
