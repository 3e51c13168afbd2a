/** Waits for API operations, without repeating their requests. */
import { expect } from 'vitest'
import type { ApiClient, Connection } from '../client.ts'
import { minutes } from './serving.ts'

export type Backup = {
  id: string
  status: string
  purpose: string
  metadata: { error?: string; verification?: string }
}
type Branch = { id: string; name: string; status: string; connection?: Connection }
type Task = { id: string; status: string; error?: string }

/** Waits for the Task named in a response. @returns its result */
export async function ended(api: ApiClient, { headers }: { headers: Headers }): Promise<Task> {
  const id = headers.get('x-task-id')
  if (id === null) throw new Error('the response names no task')
  const path = `/tasks/${id}`
  const deadline = Date.now() + minutes(15)
  for (;;) {
    const { status, body } = await api.call<Task>('GET', path, undefined, { prefer: 'wait=30' })
    if (['succeeded', 'failed'].includes(body.status)) return body
    if (status !== 200) throw new Error(`the task ${id}: ${status} ${JSON.stringify(body)}`)
    if (Date.now() > deadline) throw new Error(`not within 15 minutes: the end of ${JSON.stringify(body)}`)
  }
}

/** Waits in the same way, and fails if the operation fails. */
export async function succeeded(api: ApiClient, answer: { status: number; headers: Headers; body: unknown }) {
  expect(answer.status, JSON.stringify(answer.body)).toBeLessThan(300)
  const task = await ended(api, answer)
  expect(task.status, JSON.stringify(task)).toBe('succeeded')
}

export const createBackup = (api: ApiClient, id: string, kind: 'hot' | 'durable' = 'hot') =>
  api.call<Backup>('POST', `/databases/${id}/backup`, { kind })
export const createBranch = (api: ApiClient, id: string) => api.call<Branch>('POST', `/databases/${id}/branches`)

/** Reads a branch with its connection, if it has one. */
export const readBranch = async (api: ApiClient, id: string, branchId: string): Promise<Branch> =>
  (await api.call<Branch>('GET', `/databases/${id}/branches/${branchId}`)).body
export const readBackup = async (api: ApiClient, id: string): Promise<Backup> =>
  (await api.call<Backup>('GET', `/backups/${id}`)).body

export async function connectionOf(api: ApiClient, id: string, branchId: string): Promise<Connection> {
  const branch = await readBranch(api, id, branchId)
  if (branch.connection === undefined) throw new Error(`no connection in ${JSON.stringify(branch)}`)
  return branch.connection
}
