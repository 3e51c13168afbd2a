/**
 * The codes and texts of all errors that a transport returns, including the core's errors. For an unexpected error, the
 * client receives an internal error with only the id of the log entry.
 */
import {
  faultError,
  invalidParamsError,
  ProtocolError,
  toLegacyError,
  toModernError,
  type WireError,
} from '../../mcp-protocol/errors.ts'
import type { RpcError } from '../../mcp-protocol/json-rpc.ts'
import { CoreError, type CoreFault } from '../core/errors.ts'

function coreFaultError(fault: CoreFault): WireError {
  switch (fault.kind) {
    case 'unknown tool':
      return invalidParamsError(`unknown tool ${JSON.stringify(fault.name)}`)
    case 'unknown prompt':
      return invalidParamsError(`unknown prompt ${JSON.stringify(fault.name)}`)
    case 'unknown resource':
      return invalidParamsError(`unknown resource ${JSON.stringify(fault.uri)}`, { uri: fault.uri })
    case 'invalid cursor':
      return invalidParamsError('cursor: belongs to another list, or the list has changed; list again without a cursor')
    case 'invalid params':
      return invalidParamsError(fault.problem)
    case 'missing capability':
      return {
        code: -32021,
        message: 'Missing required client capability',
        data: { requiredCapabilities: fault.required },
        status: 400,
      }
    case 'insufficient scope':
      return invalidParamsError(`the token lacks the scope ${fault.scopes.join(' ')}`, { scopes: fault.scopes })
  }
}

export const isForeseen = (error: unknown): error is ProtocolError | CoreError =>
  error instanceof ProtocolError || error instanceof CoreError

function wireErrorOf(error: unknown, requestId: string): WireError {
  if (error instanceof ProtocolError) return faultError(error.fault)
  if (error instanceof CoreError) return coreFaultError(error.fault)
  return { code: -32603, message: 'Internal error', problem: `see the log for request ${requestId}`, status: 200 }
}

/** The error in the format of revisions up to 2025-11-25. */
export const legacyError = (error: unknown, requestId: string): RpcError => toLegacyError(wireErrorOf(error, requestId))

export function modernError(error: unknown, requestId: string): { readonly error: RpcError; readonly status: number } {
  const wireError = wireErrorOf(error, requestId)
  return { error: toModernError(wireError), status: wireError.status }
}
