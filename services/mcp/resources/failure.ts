/** The content of a resource if the database fails: JSON that clients recognize by `error`. */
import type { Failure } from '../catalogue/failures.ts'
import type { ResourceContents } from '../core/content.ts'

const beginning = '{"error":true,'

export const failureText = (failure: Failure): string => {
  const { message, code, retryable } = failure
  return JSON.stringify({ error: true, message, code, retryable })
}

/** Whether `failureText` wrote the contents. */
export const isFailure = (contents: readonly ResourceContents[]): boolean =>
  contents.some(content => 'text' in content && content.text.startsWith(beginning))
