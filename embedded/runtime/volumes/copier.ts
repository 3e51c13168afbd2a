/** Copies a tree in another thread (`copy.ts` does the work), so that a large volume never holds up the runtime. */
import { once } from 'node:events'
import { Worker } from 'node:worker_threads'
import { messageOf } from '../errors.ts'
import type { PassResult } from './copy.ts'

type CopyOrder = { source: string; target: string }
export type CopyRequest = { open: CopyOrder } | { frozen: boolean }
/** Only the message of an error comes through from one thread to another. */
export type CopyAnswer = { opened: true } | { result: PassResult } | { message: string; code: string | undefined }

type Copier = {
  /** As TreeCopy.pass. @throws what the pass threw; a system error keeps its code */
  pass(frozen: boolean): Promise<PassResult>
  close(): Promise<void>
}

/** A hot pass that leaves no more than this for the next one is good enough to freeze upon. */
const littleBytes = 16 * 1024 * 1024
const mostHotPasses = 5

type Thread = {
  ask(request: CopyRequest): Promise<CopyAnswer>
  /** Whether it answers at this moment, and can take another tree. */
  isFree(): boolean
  end(): Promise<void>
  ref(): void
  unref(): void
}

/** How long a thread without work is kept: to start one takes a tenth of a branch. */
const idleMs = 300_000
/** The thread that waits for the next tree: one at most. */
let idle: { thread: Thread; timer: NodeJS.Timeout } | undefined

function startThread(): Thread {
  const worker = new Worker(new URL('./copy-worker.ts', import.meta.url))
  let isAlive = true
  let asked = 0
  const died = new Promise<never>((_, reject) => {
    worker.once('error', reject)
    worker.once('exit', () => reject(new Error('the copying thread ended')))
  })
  died.catch(() => {
    isAlive = false
  }) // reported to the caller that waits for an answer
  return {
    async ask(request) {
      asked += 1
      const answered = once(worker, 'message')
      worker.postMessage(request)
      const [answer]: CopyAnswer[] = await Promise.race([answered, died])
      asked -= 1
      if (answer === undefined) throw new Error('the copying thread said nothing')
      return answer
    },
    isFree: () => isAlive && asked === 0,
    async end() {
      await worker.terminate()
    },
    ref: () => worker.ref(),
    unref: () => worker.unref(),
  }
}

function takeThread(): Thread {
  if (idle === undefined) return startThread()
  const { thread, timer } = idle
  clearTimeout(timer)
  idle = undefined
  if (!thread.isFree()) return startThread()
  thread.ref()
  return thread
}

/** Keeps a thread that has done its work for the next tree. It keeps no process from ending. */
async function giveBack(thread: Thread): Promise<void> {
  if (idle !== undefined || !thread.isFree()) return thread.end()
  const timer = setTimeout(() => {
    idle = undefined
    void thread.end()
  }, idleMs)
  timer.unref()
  thread.unref()
  idle = { thread, timer }
}

function resultOf(answer: CopyAnswer): CopyAnswer {
  if (!('message' in answer)) return answer
  throw Object.assign(new Error(answer.message), answer.code === undefined ? {} : { code: answer.code })
}

export async function openCopier(order: CopyOrder): Promise<Copier> {
  const thread = takeThread()
  let isClosed = false
  const close = async () => {
    if (isClosed) return
    isClosed = true
    await giveBack(thread)
  }
  try {
    resultOf(await thread.ask({ open: order }))
  } catch (error) {
    await close()
    throw error
  }
  return {
    async pass(frozen) {
      const answer = resultOf(await thread.ask({ frozen }))
      if ('result' in answer) return answer.result
      throw new Error('the copying thread said nothing')
    },
    close,
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
