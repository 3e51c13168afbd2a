/**
 * The words and codes for everything that a transport refuses, the core's refusals included. An unforeseen error becomes an internal error that names the log entry, and nothing else.
 */
import {
  inLegacyWords,
  inModernWords,
  ProtocolError,
  type Said,
  saidInvalidParams,
  sayFault,
} from '../../mcp-protocol/errors.ts'
import type { RpcError } from '../../mcp-protocol/json-rpc.ts'
import { CoreError, type CoreFault } from '../core/errors.ts'

function sayCoreFault(fault: CoreFault): Said {
  switch (fault.kind) {
    case 'unknown tool':
      return saidInvalidParams(`there is no tool ${JSON.stringify(fault.name)}`)
    case 'unknown prompt':
      return saidInvalidParams(`there is no prompt ${JSON.stringify(fault.name)}`)
    case 'unknown resource':
      return saidInvalidParams(`there is no resource ${JSON.stringify(fault.uri)}`, { uri: fault.uri })
    case 'invalid cursor':
      return saidInvalidParams('the cursor is none of this list')
    case 'invalid params':
      return saidInvalidParams(fault.problem)
    case 'missing ability':
      return {
        code: -32021,
        message: 'Missing required client capability',
        data: { requiredCapabilities: fault.required },
        status: 400,
      }
    case 'insufficient scope':
      return saidInvalidParams(`the token is not for ${fault.scopes.join(' ')}`, { scopes: fault.scopes })
  }
}

export const isForeseen = (error: unknown): error is ProtocolError | CoreError =>
  error instanceof ProtocolError || error instanceof CoreError

function saidOf(error: unknown, requestId: string): Said {
  if (error instanceof ProtocolError) return sayFault(error.fault)
  if (error instanceof CoreError) return sayCoreFault(error.fault)
  return { code: -32603, message: 'Internal error', problem: `the log says more under ${requestId}`, status: 200 }
}

/** For revisions up to 2025-11-25. */
export const legacyError = (error: unknown, requestId: string): RpcError => inLegacyWords(saidOf(error, requestId))

export function modernError(error: unknown, requestId: string): { readonly error: RpcError; readonly status: number } {
  const said = saidOf(error, requestId)
  return { error: inModernWords(said), status: said.status }
}
