/** What a call is refused with: a gRPC status as the CSI specification asks for it ("Error Scheme"), and a sentence. */
// @ts-nocheck

import { status } from '@grpc/grpc-js'

type RefusalCode =
  | 'INVALID_ARGUMENT'
  | 'NOT_FOUND'
  | 'ALREADY_EXISTS'
  | 'FAILED_PRECONDITION'
  | 'OUT_OF_RANGE'
  | 'RESOURCE_EXHAUSTED'

export class CsiError extends Error {
  override readonly name = 'CsiError'
  readonly code: number
  constructor(code: RefusalCode, message: string) {
    super(message)
    this.code = status[code]
  }
}
