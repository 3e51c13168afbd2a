/**
 * The thread that copies trees one after another. It copies file by file, synchronously, without blocking the runtime's
 * event loop.
 */
import { parentPort } from 'node:worker_threads'
import { messageOf } from '../errors.ts'
import type { CopyAnswer, CopyRequest } from './copier.ts'
import { createTreeCopy } from './copy.ts'

let copy: ReturnType<typeof createTreeCopy> | undefined

function answer(request: CopyRequest): CopyAnswer {
  if ('open' in request) {
    copy = undefined
    copy = createTreeCopy(request.open.source, request.open.target)
    return { opened: true }
  }
  if (copy === undefined) throw new Error('no tree was opened')
  return { result: copy.pass(request.frozen) }
}

parentPort?.on('message', (request: CopyRequest) => {
  try {
    parentPort?.postMessage(answer(request))
  } catch (error) {
    const code = error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : undefined
    parentPort?.postMessage({ message: messageOf(error), code } satisfies CopyAnswer)
  }
})
