import { expect, test } from 'vitest'
import type { TryRequest } from '../lib/try-it.ts'
import type { Api } from './client.ts'
import { tryService } from './try-service.ts'

const requests: TryRequest[] = [
  { type: 'rest', body: { method: 'GET', path: 't', query: '' } },
  { type: 'mcp', body: { tool: 't' } },
  { type: 'rag', body: { pipeline: 'docs', query: 'Why?' } },
]

test('sends each request to the service of the database or branch', async () => {
  const sent: unknown[] = []
  const POST = async (path: string, options: { params: object; body: object }) => {
    sent.push([path.replace('/managed/v1/databases/{id}', ''), options.params, options.body])
    return { data: {}, response: new Response() }
  }
  // `tryService` uses no other method of the API.
  const api = { POST } as unknown as Api
  for (const branchId of [undefined, 'b'])
    for (const request of requests) await tryService(api, { id: 'a', branchId }, request, new AbortController().signal)
  expect(sent).toEqual([
    ...requests.map(({ type, body }) => [`/services/${type}/try`, { path: { id: 'a' } }, body]),
    ...requests.map(({ type, body }) => [
      `/branches/{branch_id}/services/${type}/try`,
      { path: { id: 'a', branch_id: 'b' } },
      body,
    ]),
  ])
})
