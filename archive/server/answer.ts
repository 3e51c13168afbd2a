/** Converts faults to HTTP responses: a status, and an error body for the client. Has no side effects. */
import { ArchiveError } from '../errors.ts'

export type Answer = {
  status: number
  headers?: Readonly<Record<string, string>>
  /** Absent: no body. */
  body?: unknown
}

export const refusal = (status: number, code: string, message: string, headers: Answer['headers'] = {}): Answer => ({
  status,
  headers,
  body: { code, message },
})

const retryAfter = { 'retry-after': '1' }

export const busy = (): Answer => refusal(503, 'busy', 'too many concurrent transfers; try again', retryAfter)

/** Undefined for an error that is not an ArchiveError: the caller logs it. */
export function faultAnswer(error: unknown): Answer | undefined {
  if (!(error instanceof ArchiveError)) return undefined
  const { fault, message } = error
  switch (fault.kind) {
    case 'conflict':
      return refusal(409, 'conflict', message)
    case 'content differs':
      return refusal(400, 'content_differs', message)
    case 'damaged':
      return refusal(500, 'damaged', message)
    case 'unknown key':
    case 'wrong key':
      return refusal(500, 'unknown_key', message)
    case 'store':
      return fault.isTemporary ? refusal(503, 'store', message, retryAfter) : refusal(502, 'store', message)
  }
}
