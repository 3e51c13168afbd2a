import type { Target } from '../lib/target.ts'
import type { ServiceAnswer } from '../lib/try-answer.ts'
import type { TryRequest } from '../lib/try-it.ts'
import { type Api, read } from './client.ts'

const ofDatabase = {
  rest: '/managed/v1/databases/{id}/services/rest/try',
  mcp: '/managed/v1/databases/{id}/services/mcp/try',
  rag: '/managed/v1/databases/{id}/services/rag/try',
} as const
const ofBranch = {
  rest: '/managed/v1/databases/{id}/branches/{branch_id}/services/rest/try',
  mcp: '/managed/v1/databases/{id}/branches/{branch_id}/services/mcp/try',
  rag: '/managed/v1/databases/{id}/branches/{branch_id}/services/rag/try',
} as const

/**
 * Sends a request to a service of a database or branch, through the API.
 * @throws ApiError if the API refuses or cannot send the request, or `signal.reason` if the caller aborts the signal
 */
export function tryService(
  api: Api,
  { id, branchId }: Target,
  request: TryRequest,
  signal: AbortSignal,
): Promise<ServiceAnswer> {
  if (branchId === undefined) {
    const params = { path: { id } }
    if (request.type === 'rest') return read(api.POST(ofDatabase.rest, { params, body: request.body, signal }))
    if (request.type === 'mcp') return read(api.POST(ofDatabase.mcp, { params, body: request.body, signal }))
    return read(api.POST(ofDatabase.rag, { params, body: request.body, signal }))
  }
  const params = { path: { id, branch_id: branchId } }
  if (request.type === 'rest') return read(api.POST(ofBranch.rest, { params, body: request.body, signal }))
  if (request.type === 'mcp') return read(api.POST(ofBranch.mcp, { params, body: request.body, signal }))
  return read(api.POST(ofBranch.rag, { params, body: request.body, signal }))
}
