/** The thread that searches large knowledge bases, one task after another. */
import { parentPort } from 'node:worker_threads'
import type { ResultMessage, TaskMessage } from './protocol.ts'
import { runTask } from './task.ts'

parentPort?.on('message', ({ id, path, task, aborted: gone }: TaskMessage) => {
  const isAborted = () => Atomics.load(gone, 0) !== 0
  const result = isAborted() ? ({ kind: 'hits', hits: [] } as const) : runTask(path, task, isAborted)
  parentPort?.postMessage({ id, result } satisfies ResultMessage)
})
