/** The thread that copies one tree: file by file without a turn of the event loop in between, beside the runtime's own. */
// @ts-nocheck

import { parentPort, workerData } from 'node:worker_threads'
import type { CopyAnswer, CopyOrder, CopyRequest } from './copier.ts'
import { createTreeCopy } from './copy.ts'

const { source, target }: CopyOrder = workerData
const copy = createTreeCopy(source, target)

parentPort?.on('message', ({ frozen }: CopyRequest) => {
  let answer: CopyAnswer
  try {
    answer = { result: copy.pass(frozen) }
  } catch (error) {
    answer = { error: error instanceof Error ? error : new Error(String(error)) }
  }
  parentPort?.postMessage(answer)
})

// Whoever opened this thread waits for a first word: the tree has been found and the target made.
parentPort?.postMessage('open')
