/**
 * Controls the thread for large knowledge bases from the main thread. The thread starts at first use and ends after
 * some idle time. It never keeps the process running.
 */
import { Worker } from 'node:worker_threads'
import type { ResultMessage, Task, TaskMessage, TaskResult } from './protocol.ts'
import { KnowledgeError } from './types.ts'

type Thread = {
  /** @throws KnowledgeError if too many searches wait; the signal's abort reason */
  run(path: string, task: Task, signal: AbortSignal): Promise<TaskResult>
  close(): void
}

const maximumWaiting = 32

type Waiting = { readonly settle: (result: TaskResult) => void; readonly fail: (error: unknown) => void }

export function createThread(idleMs: number): Thread {
  const waiting = new Map<number, Waiting>()
  let worker: Worker | undefined
  let idle: NodeJS.Timeout | undefined
  let lastId = 0

  function close(): void {
    clearTimeout(idle)
    void worker?.terminate()
    worker = undefined
  }

  function started(): Worker {
    clearTimeout(idle)
    if (worker !== undefined) return worker
    const made = new Worker(new URL('./worker.ts', import.meta.url))
    made.unref()
    made.on('message', ({ id, result }: ResultMessage) => waiting.get(id)?.settle(result))
    const end = (error: unknown) => {
      if (worker === made) worker = undefined
      for (const { fail } of waiting.values()) fail(error)
    }
    made.on('error', end)
    made.on('exit', () => end(new Error('the thread that searches the knowledge base has ended')))
    worker = made
    return made
  }

  return {
    close,
    run: (path, task, signal) => {
      signal.throwIfAborted()
      if (waiting.size >= maximumWaiting) throw new KnowledgeError({ kind: 'busy' })
      const id = ++lastId
      const aborted = new Int32Array(new SharedArrayBuffer(4))
      return new Promise<TaskResult>((resolve, reject) => {
        const done = () => {
          waiting.delete(id)
          signal.removeEventListener('abort', abort)
          if (waiting.size === 0) idle = setTimeout(close, idleMs).unref()
        }
        const abort = () => {
          Atomics.store(aborted, 0, 1)
          done()
          reject(signal.reason)
        }
        const settle = (result: TaskResult) => {
          done()
          resolve(result)
        }
        const fail = (error: unknown) => {
          done()
          reject(error)
        }
        waiting.set(id, { settle, fail })
        signal.addEventListener('abort', abort, { once: true })
        started().postMessage({ id, path, task, aborted } satisfies TaskMessage)
      })
    },
  }
}
