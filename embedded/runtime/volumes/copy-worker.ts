/** The thread that copies one tree: file by file without a turn of the event loop in between, beside the runtime's own. */
import { parentPort, workerData } from 'node:worker_threads'
import { messageOf } from '../errors.ts'
import type { CopyAnswer, CopyOrder, CopyRequest } from './copier.ts'
import { createTreeCopy } from './copy.ts'

const { source, target }: CopyOrder = workerData
const copy = createTreeCopy(source, target)

parentPort?.on('message', ({ frozen }: CopyRequest) => {
  let answer: CopyAnswer
  try {
    answer = { result: copy.pass(frozen) }
  } catch (error) {
    const code = error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : undefined
    answer = { message: messageOf(error), code }
  }
  parentPort?.postMessage(answer)
})

// Whoever opened this thread waits for a first word: the tree has been found and the target made.
parentPort?.postMessage('open')
