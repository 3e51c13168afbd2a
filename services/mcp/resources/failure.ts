/** What a resource says where its database cannot: JSON that clients tell by `error`. */
import type { Failure } from '../catalogue/failures.ts'
import type { ResourceContents } from '../core/content.ts'

const beginning = '{"error":true,'

export const failureText = (failure: Failure): string => {
  const { message, code, retryable } = failure
  return JSON.stringify({ error: true, message, code, retryable })
}

/** Whether the contents are what `failureText` has written. */
export const saysFailure = (contents: readonly ResourceContents[]): boolean =>
  contents.some(content => 'text' in content && content.text.startsWith(beginning))
