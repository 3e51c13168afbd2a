/** The thread that searches large knowledge bases, one task after the other. */
import { parentPort } from 'node:worker_threads'
import type { ResultMessage, TaskMessage } from './protocol.ts'
import { carryOut } from './task.ts'

parentPort?.on('message', ({ id, path, task, gone }: TaskMessage) => {
  const isGone = () => Atomics.load(gone, 0) !== 0
  const result = isGone() ? ({ kind: 'hits', hits: [] } as const) : carryOut(path, task, isGone)
  parentPort?.postMessage({ id, result } satisfies ResultMessage)
})
