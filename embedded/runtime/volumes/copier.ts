/** Copies a tree in a thread of its own (`copy.ts` does the work), so that a large volume never holds up the runtime. */
import { once } from 'node:events'
import { Worker } from 'node:worker_threads'
import { messageOf } from '../errors.ts'
import type { PassResult } from './copy.ts'

export type CopyOrder = { source: string; target: string }
export type CopyRequest = { frozen: boolean }
/** Only the message of an error comes through from one thread to another. */
export type CopyAnswer = { result: PassResult } | { message: string; code: string | undefined }

type Copier = {
  /** As TreeCopy.pass. @throws what the pass threw; a system error keeps its code */
  pass(frozen: boolean): Promise<PassResult>
  close(): Promise<void>
}

/** A hot pass that leaves no more than this for the next one is good enough to freeze upon. */
const littleBytes = 16 * 1024 * 1024
const mostHotPasses = 5

export async function openCopier(order: CopyOrder): Promise<Copier> {
  const worker = new Worker(new URL('./copy-worker.ts', import.meta.url), { workerData: order })
  const died = new Promise<never>((_, reject) => {
    worker.once('error', reject)
    worker.once('exit', () => reject(new Error('the copying thread ended')))
  })
  died.catch(() => {}) // told to whoever waits for a pass
  await Promise.race([once(worker, 'message'), died])
  return {
    async pass(frozen) {
      const answered = once(worker, 'message')
      worker.postMessage({ frozen } satisfies CopyRequest)
      const [answer]: CopyAnswer[] = await Promise.race([answered, died])
      if (answer === undefined) throw new Error('the copying thread said nothing')
      if ('result' in answer) return answer.result
      throw Object.assign(new Error(answer.message), answer.code === undefined ? {} : { code: answer.code })
    },
    async close() {
      await worker.terminate()
    },
  }
}

/**
 * Passes while the source is written to, until what is left is little or stops shrinking. Where copies share blocks one pass is enough:
 * to share the blocks of a file once more takes as long as the first time, however little of it has changed.
 */
export async function copyHot(copier: Copier): Promise<void> {
  let before = Number.POSITIVE_INFINITY
  for (let passes = 0; passes < mostHotPasses; passes += 1) {
    const { writtenBytes } = await copier.pass(false)
    if (writtenBytes <= littleBytes || writtenBytes > before / 2) return
    before = writtenBytes
  }
}

/** Copies a tree that nothing writes to. @returns its bytes */
export async function copyTree(order: CopyOrder): Promise<number> {
  const copier = await openCopier(order)
  try {
    return (await copier.pass(true)).bytes
  } catch (error) {
    throw error instanceof Error ? error : new Error(messageOf(error))
  } finally {
    await copier.close()
  }
}
