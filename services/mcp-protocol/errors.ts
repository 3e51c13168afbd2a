/** Errors that MCP itself defines, as data, and their texts and codes in each group of revisions. */
import type { JsonObject } from './json.ts'
import {
  type InvalidMessage,
  internalError,
  invalidParams,
  invalidRequest,
  methodNotFound,
  parseError,
  type RpcError,
} from './json-rpc.ts'
import { modernVersion } from './versions.ts'

export type ProtocolFault =
  | { readonly kind: 'parse error'; readonly problem: string | undefined }
  | { readonly kind: 'invalid request'; readonly problem: string }
  | { readonly kind: 'unknown method'; readonly method: string }
  /** The fields of `_meta` that declare the revision and the client's capabilities. */
  | { readonly kind: 'invalid envelope'; readonly problem: string }
  | { readonly kind: 'header mismatch'; readonly problem: string }
  | { readonly kind: 'unsupported version'; readonly requested: string | undefined }
  /** A limit of the server is reached. */
  | { readonly kind: 'exhausted'; readonly problem: string }
  /** The client accepts no requests, or did not answer a request. */
  | { readonly kind: 'no answer'; readonly problem: string }

export class ProtocolError extends Error {
  readonly fault: ProtocolFault

  constructor(fault: ProtocolFault) {
    super(fault.kind)
    this.name = 'ProtocolError'
    this.fault = fault
  }
}

export const invalidFault = ({ code, problem }: InvalidMessage): ProtocolFault => ({
  kind: code === invalidRequest ? 'invalid request' : 'invalid envelope',
  problem,
})

/** The contract fixes `message`. `problem` adds the details. */
export type WireError = {
  readonly code: number
  readonly message: string
  readonly problem?: string
  readonly data?: JsonObject
  /** The HTTP status in the newest revision. Older revisions use 200. */
  readonly status: number
}

export const invalidParamsError = (problem: string, data?: JsonObject): WireError => ({
  code: invalidParams,
  message: 'Invalid params',
  problem,
  ...(data === undefined ? {} : { data }),
  status: 200,
})

export function faultError(fault: ProtocolFault): WireError {
  switch (fault.kind) {
    case 'parse error':
      return {
        code: parseError,
        message: 'Parse error',
        ...(fault.problem === undefined ? {} : { problem: fault.problem }),
        status: 400,
      }
    case 'invalid request':
      return { code: invalidRequest, message: 'Invalid Request', problem: fault.problem, status: 400 }
    case 'unknown method':
      return {
        code: methodNotFound,
        message: 'Method not found',
        problem: `unknown method ${fault.method}`,
        status: 404,
      }
    case 'invalid envelope':
      return { ...invalidParamsError(fault.problem), status: 400 }
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
      return { code: internalError, message: 'Internal error', problem: fault.problem, status: 200 }
  }
}

/**
 * The error for revisions up to 2025-11-25. These revisions lack later error codes, so such codes become "Invalid
 * params", with the original message as `problem`.
 */
export function toLegacyError({ code, message, problem, data }: WireError): RpcError {
  const isLater = code <= -32020 && code > -32100
  const detail = { ...(problem === undefined ? {} : { problem }), ...data }
  return {
    code: isLater ? invalidParams : code,
    message: isLater ? 'Invalid params' : message,
    ...(Object.keys(detail).length === 0 ? {} : { data: isLater ? { problem: message, ...detail } : detail }),
  }
}

export function toModernError({ code, message, problem, data }: WireError): RpcError {
  return {
    code,
    message: problem === undefined ? message : `${message}: ${problem}`,
    ...(data === undefined ? {} : { data }),
  }
}
