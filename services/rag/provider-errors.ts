/** What a provider fails with, as clients see it: without the words of the provider, which may repeat a part of the request. The log has them. */
import { ProviderError } from '../providers/errors.ts'
import { RagError, type RagErrorCode } from './errors.ts'

/** What is no error of a provider stays as it is. If the signal is aborted, its reason. */
export function ofProvider(error: unknown, signal: AbortSignal, code?: RagErrorCode): unknown {
  if (signal.aborted) return signal.reason
  if (!(error instanceof ProviderError)) return error
  return new RagError(code ?? codeOf(error), error.summary, error)
}

const codeOf = ({ kind }: ProviderError): RagErrorCode => (kind === 'timeout' ? 'REQUEST_TIMEOUT' : 'EXECUTION_ERROR')

/** As the log has it. */
export const reasonOf = (error: RagError): string =>
  error.cause instanceof ProviderError ? error.cause.message : error.message
