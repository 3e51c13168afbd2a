/** Converts errors of the AWS SDK to ArchiveErrors. */
import { ArchiveError } from '../errors.ts'

const statusOf = (error: unknown): unknown => Object(Object(error).$metadata).httpStatusCode

export const hasStatus = (error: unknown, status: number): boolean => statusOf(error) === status

/** Temporary errors: network errors, 429, 5xx except 501, and conflicts of concurrent writes. */
const temporaryNames = ['TimeoutError', 'SlowDown', 'RequestTimeout', 'ConditionalRequestConflict', 'OperationAborted']
const temporaryCodes = ['ECONNREFUSED', 'ECONNRESET', 'EPIPE', 'ETIMEDOUT', 'ENOTFOUND', 'EAI_AGAIN', 'EHOSTUNREACH']

function isTemporary(error: Error): boolean {
  const status = statusOf(error)
  const code = 'code' in error ? String(error.code) : ''
  return (
    temporaryNames.includes(error.name) ||
    temporaryCodes.includes(code) ||
    (typeof status === 'number' && (status >= 500 || status === 429) && status !== 501)
  )
}

/** @throws ArchiveError `store` for errors of the SDK and of connections; any other error unchanged */
export async function attempt<Result>(name: string, work: () => Promise<Result>): Promise<Result> {
  try {
    return await work()
  } catch (error) {
    if (!(error instanceof Error) || error instanceof ArchiveError || error instanceof RangeError) throw error
    const isOfStore = '$metadata' in error || 'code' in error || temporaryNames.includes(error.name)
    if (!isOfStore) throw error
    const code = error.name === 'Error' && 'code' in error ? String(error.code) : error.name
    const fault = { kind: 'store' as const, name, code, detail: error.message, isTemporary: isTemporary(error) }
    throw new ArchiveError(fault, { cause: error })
  }
}
