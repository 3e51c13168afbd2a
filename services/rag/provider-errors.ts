/**
 * Provider failures as clients see them: without the provider's message, which may repeat a part of the request. The
 * log contains it.
 */
import { ProviderError } from '../providers/errors.ts'
import { RagError, type RagErrorCode } from './errors.ts'

/** Other errors are returned unchanged. If the signal is aborted, its reason. */
export function ofProvider(error: unknown, signal: AbortSignal, code?: RagErrorCode): unknown {
  if (signal.aborted) return signal.reason
  if (!(error instanceof ProviderError)) return error
  return new RagError(code ?? codeOf(error), error.summary, error)
}

const codeOf = ({ kind }: ProviderError): RagErrorCode => (kind === 'timeout' ? 'REQUEST_TIMEOUT' : 'EXECUTION_ERROR')

/** For the log. */
export const reasonOf = (error: RagError): string =>
  error.cause instanceof ProviderError ? error.cause.message : error.message
