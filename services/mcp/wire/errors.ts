/**
 * What a wire refuses by itself, and how each refusal is said: in the words and codes of the older revisions, which stand fixed, or of the newest, with
 * the HTTP status it wants. What nobody foresaw is told to the client as an internal error with the name the log has it under, and nothing else.
 */

import { ProtocolError, type ProtocolFault } from '../../mcp-protocol/errors.ts'
import type { RpcError } from '../../mcp-protocol/json-rpc.ts'
import { modernVersion } from '../../mcp-protocol/versions.ts'
import { CoreError, type CoreFault } from '../core/errors.ts'
import type { JsonObject } from '../core/json.ts'

/** `message` is what the contract fixes; `problem` says which of them it is. */
type Said = {
  readonly code: number
  readonly message: string
  readonly problem?: string
  readonly data?: JsonObject
  /** In the newest revision; the older ones say 200. */
  readonly status: number
}

const invalidParams = (problem: string, data?: JsonObject): Said => ({
  code: -32602,
  message: 'Invalid params',
  problem,
  ...(data === undefined ? {} : { data }),
  status: 200,
})

function sayFault(fault: ProtocolFault | CoreFault): Said {
  switch (fault.kind) {
    case 'parse error':
      return {
        code: -32700,
        message: 'Parse error',
        ...(fault.problem === undefined ? {} : { problem: fault.problem }),
        status: 400,
      }
    case 'invalid request':
      return { code: -32600, message: 'Invalid Request', problem: fault.problem, status: 400 }
    case 'unknown method':
      return { code: -32601, message: 'Method not found', problem: `there is no method ${fault.method}`, status: 404 }
    case 'invalid envelope':
      return { ...invalidParams(fault.problem), status: 400 }
    case 'header mismatch':
      return { code: -32020, message: 'Header mismatch', problem: fault.problem, status: 400 }
    case 'unsupported version':
      return {
        code: -32022,
        message: 'Unsupported protocol version',
        data: { supported: [modernVersion], ...(fault.requested === undefined ? {} : { requested: fault.requested }) },
        status: 400,
      }
    case 'exhausted':
    case 'no answer':
      return { code: -32603, message: 'Internal error', problem: fault.problem, status: 200 }
    case 'unknown tool':
      return invalidParams(`there is no tool ${JSON.stringify(fault.name)}`)
    case 'unknown prompt':
      return invalidParams(`there is no prompt ${JSON.stringify(fault.name)}`)
    case 'unknown resource':
      return invalidParams(`there is no resource ${JSON.stringify(fault.uri)}`, { uri: fault.uri })
    case 'invalid cursor':
      return invalidParams('the cursor is none of this list')
    case 'invalid params':
      return invalidParams(fault.problem)
    case 'missing ability':
      return {
        code: -32021,
        message: 'Missing required client capability',
        data: { requiredCapabilities: fault.required },
        status: 400,
      }
    case 'insufficient scope':
      return invalidParams(`the token is not for ${fault.scopes.join(' ')}`, { scopes: fault.scopes })
  }
}

const isFault = (error: unknown): error is ProtocolError | CoreError =>
  error instanceof ProtocolError || error instanceof CoreError

/** undefined: nobody foresaw it. */
const saidOf = (error: unknown): Said | undefined => (isFault(error) ? sayFault(error.fault) : undefined)

const internal = (requestId: string): Said => ({
  code: -32603,
  message: 'Internal error',
  problem: `the log says more under ${requestId}`,
  status: 200,
})

export const isForeseen = isFault

/** For revisions up to 2025-11-25. The codes that came later are told as what was wrong with the parameters. */
export function legacyError(error: unknown, requestId: string): RpcError {
  const { code, message, problem, data } = saidOf(error) ?? internal(requestId)
  const isLater = code <= -32020 && code > -32100
  const detail = { ...(problem === undefined ? {} : { problem }), ...data }
  return {
    code: isLater ? -32602 : code,
    message: isLater ? 'Invalid params' : message,
    ...(Object.keys(detail).length === 0 ? {} : { data: isLater ? { problem: message, ...detail } : detail }),
  }
}

export function modernError(error: unknown, requestId: string): { readonly error: RpcError; readonly status: number } {
  const { code, message, problem, data, status } = saidOf(error) ?? internal(requestId)
  return {
    error: {
      code,
      message: problem === undefined ? message : `${message}: ${problem}`,
      ...(data === undefined ? {} : { data }),
    },
    status,
  }
}
