/** Errors of calls: a gRPC status as in the CSI specification ("Error Scheme"), and a sentence. */
import { status } from '@grpc/grpc-js'

type RefusalCode =
  | 'INVALID_ARGUMENT'
  | 'NOT_FOUND'
  | 'ALREADY_EXISTS'
  | 'FAILED_PRECONDITION'
  | 'OUT_OF_RANGE'
  | 'RESOURCE_EXHAUSTED'
  | 'UNAVAILABLE'

export class CsiError extends Error {
  override readonly name = 'CsiError'
  readonly code: number
  constructor(code: RefusalCode, message: string) {
    super(message)
    this.code = status[code]
  }
}
