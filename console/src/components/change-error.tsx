/** The error of a failed write, with the request id if the server failed. */
import { ApiError } from '../api/errors.ts'
import { texts } from '../texts.ts'

export function ChangeError({ error }: { error: Error | null }) {
  if (error === null) return null
  const requestId = error instanceof ApiError && error.status >= 500 ? error.requestId : undefined
  return (
    <p className="notice tone-bad" role="alert">
      {error.message}
      {requestId !== undefined && <span className="mono">{texts.errors.requestId(requestId)}</span>}
    </p>
  )
}
