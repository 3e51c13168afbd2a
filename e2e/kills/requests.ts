/**
 * A careful API client that survives kills. It repeats a request with the same Idempotency-Key until the request is
 * answered, retries when a database is busy, and waits for the Task.
 */
import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { eventually } from '../client.ts'
import type { Target } from './target.ts'

export type TaskEnd = { status: 'succeeded' | 'failed'; error?: string }
type Task = { id: string; name: string; subject_kind: string; status: string; error?: string }
type Accepted<T> = { body: T; taskId: string | undefined }

const pauseMs = 300
/** How long a request may be refused or stay unanswered. */
const acceptedWithinMs = 10 * 60_000

export function createRequests(target: Target) {
  /** How often each status was returned, and how often a request was interrupted and repeated. */
  const repeated = new Map<string, number>()
  const note = (why: string) => void repeated.set(why, (repeated.get(why) ?? 0) + 1)

  async function attempt<T>(method: string, path: string, body: unknown, key: string) {
    try {
      const headers: Record<string, string> = method === 'GET' ? {} : { 'idempotency-key': key }
      return await (await target.api()).call<T>(method, path, body, headers)
    } catch {
      return undefined
    }
  }

  /** Resolves when the request is accepted. A 404 counts as an answer only for a deletion. */
  async function request<T>(method: string, path: string, body?: unknown): Promise<Accepted<T>> {
    const key = randomUUID()
    const deadline = Date.now() + acceptedWithinMs
    for (let last = ''; Date.now() < deadline; await sleep(pauseMs)) {
      const answer = await attempt<T>(method, path, body, key)
      const isDone = answer !== undefined && (answer.status < 300 || (method === 'DELETE' && answer.status === 404))
      if (isDone) return { body: answer.body, taskId: answer.headers.get('x-task-id') ?? undefined }
      last = answer === undefined ? 'no answer' : `${answer.status} ${JSON.stringify(answer.body)}`
      note(answer === undefined ? 'no answer' : String(answer.status))
      if (answer !== undefined && answer.status < 500 && ![409, 429].includes(answer.status))
        throw new Error(`${method} ${path}: ${last}`)
      if (Date.now() + pauseMs >= deadline) throw new Error(`${method} ${path} is not accepted: ${last}`)
    }
    throw new Error(`${method} ${path} is not accepted`)
  }
  const read = async <T>(path: string): Promise<T> => (await request<T>('GET', path)).body

  async function ended(taskId: string, withinMs: number): Promise<TaskEnd> {
    let last: Task | undefined
    try {
      return await eventually(
        'the task has succeeded or failed',
        async () => {
          await sleep(pauseMs)
          last = await read<Task>(`/tasks/${taskId}`)
          const { status, error } = last
          if (status !== 'succeeded' && status !== 'failed') return undefined
          return { status, ...(error === undefined ? {} : { error }) }
        },
        withinMs,
      )
    } catch (cause) {
      throw new Error(`the task has not ended within ${withinMs} ms: ${JSON.stringify(last)}`, { cause })
    }
  }

  return { request, read, ended, repeated }
}
export type Requests = ReturnType<typeof createRequests>
