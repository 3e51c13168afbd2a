/** Runs statements through the API, and reads the response while it arrives. */
import { createLines, createResults, type SqlResult } from '../lib/sql.ts'
import type { Target } from '../lib/target.ts'
import { texts } from '../texts.ts'
import type { Account } from './accounts.ts'
import { ApiError } from './errors.ts'

export type SqlRequest = {
  text: string
  /** Values of `$1`, `$2`, ... */
  parameters?: string[]
  mode: 'read' | 'write'
  role?: 'application' | 'admin' | 'application_read_only'
  explain?: 'plan' | 'analyze'
  max_rows: number
  timeout_seconds: number
}

const refusalOf = async (response: Response): Promise<ApiError> => {
  const body: unknown = await response.json().catch(() => undefined)
  const message = typeof body === 'object' && body !== null && 'message' in body ? body.message : undefined
  const refused = typeof message === 'string' ? message : texts.errors.status(response.status)
  // The API's message names a request field. On the page this field is a switch, so the page needs its own text.
  const text = refused.includes('need "mode": "write"') ? texts.sql.needsWrite : refused
  return new ApiError(response.status, text, response.headers.get('x-request-id') ?? undefined)
}

const pathOf = ({ id, branchId }: Target): string => {
  const database = `/managed/v1/databases/${encodeURIComponent(id)}`
  return branchId === undefined ? `${database}/sql` : `${database}/branches/${encodeURIComponent(branchId)}/sql`
}

/**
 * Runs statements, and calls `onGrowth` when the results have grown.
 * @throws ApiError if the API refuses the request, or `signal.reason` if the caller aborts the signal
 */
export async function runSql(
  account: Account,
  target: Target,
  request: SqlRequest,
  signal: AbortSignal,
  onGrowth: (results: readonly SqlResult[]) => void,
): Promise<void> {
  const response = await fetch(pathOf(target), {
    method: 'POST',
    headers: { authorization: `Bearer ${account.token()}`, 'content-type': 'application/json' },
    body: JSON.stringify(request),
    credentials: 'omit',
    cache: 'no-store',
    signal,
  }).catch(error => {
    throw signal.aborted ? error : new ApiError(0, texts.errors.unreachable)
  })
  if (!response.ok || response.body === null) throw await refusalOf(response)
  const { results, apply } = createResults()
  const lines = createLines()
  const decoder = new TextDecoder()
  const reader = response.body.getReader()
  for (;;) {
    const { done, value } = await reader.read()
    for (const line of lines(done ? '\n' : decoder.decode(value, { stream: true }))) apply(line)
    onGrowth(results)
    if (done) return
  }
}
