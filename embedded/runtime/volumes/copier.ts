/** Copies a tree in another thread (`copy.ts` does the work), so that a large volume never blocks the runtime. */
import { once } from 'node:events'
import { Worker } from 'node:worker_threads'
import { messageOf } from '../errors.ts'
import type { PassResult } from './copy.ts'

type CopyOrder = { source: string; target: string }
export type CopyRequest = { open: CopyOrder } | { frozen: boolean }
/** The threads exchange only the message of an error. */
export type CopyAnswer = { opened: true } | { result: PassResult } | { message: string; code: string | undefined }

type Copier = {
  /** Like TreeCopy.pass. @throws the error of the pass; a system error keeps its code */
  pass(frozen: boolean): Promise<PassResult>
  close(): Promise<void>
}

/** If a hot pass leaves at most this much for the next pass, the processes can be frozen. */
const littleBytes = 16 * 1024 * 1024
const mostHotPasses = 5

type Thread = {
  send(request: CopyRequest): Promise<CopyAnswer>
  /** Whether the thread is idle and can copy another tree. */
  isFree(): boolean
  end(): Promise<void>
  ref(): void
  unref(): void
}

/** How long an idle thread is kept. Starting a thread takes a tenth of a branch's creation time. */
const idleMs = 300_000
/** The idle thread for the next tree. There is at most one. */
let idle: { thread: Thread; timer: NodeJS.Timeout } | undefined

function startThread(): Thread {
  const worker = new Worker(new URL('./copy-worker.ts', import.meta.url))
  let isRunning = true
  let pending = 0
  const died = new Promise<never>((_, reject) => {
    worker.once('error', reject)
    worker.once('exit', () => reject(new Error('the copying thread ended')))
  })
  died.catch(() => {
    isRunning = false
  }) // the caller that waits for an answer gets the error
  return {
    async send(request) {
      pending += 1
      const answered = once(worker, 'message')
      worker.postMessage(request)
      const [answer]: CopyAnswer[] = await Promise.race([answered, died])
      pending -= 1
      if (answer === undefined) throw new Error('the copying thread did not answer')
      return answer
    },
    isFree: () => isRunning && pending === 0,
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

/** Keeps an idle thread for the next tree. The thread does not keep the process alive. */
async function keepIdle(thread: Thread): Promise<void> {
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
    await keepIdle(thread)
  }
  try {
    resultOf(await thread.send({ open: order }))
  } catch (error) {
    await close()
    throw error
  }
  return {
    async pass(frozen) {
      const answer = resultOf(await thread.send({ frozen }))
      if ('result' in answer) return answer.result
      throw new Error('the copying thread did not answer')
    },
    close,
  }
}

/**
 * Runs passes while the source is being written, until little remains or the rest no longer shrinks. If copies share
 * blocks, one pass is enough: sharing a file's blocks again takes as long as the first time, even after a small change.
 */
export async function copyHot(copier: Copier): Promise<void> {
  let before = Number.POSITIVE_INFINITY
  for (let passes = 0; passes < mostHotPasses; passes += 1) {
    const { writtenBytes } = await copier.pass(false)
    if (writtenBytes <= littleBytes || writtenBytes > before / 2) return
    before = writtenBytes
  }
}

/** Copies a tree that is not being written. @returns its bytes */
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
