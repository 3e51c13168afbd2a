/**
 * Searches the knowledge base. Reads a small file on the calling thread, and a large file on a separate thread, so that
 * other requests are not delayed.
 */
import { statSync } from 'node:fs'
import type { Task, TaskResult } from './protocol.ts'
import { runTask } from './task.ts'
import { createThread } from './thread.ts'
import { KnowledgeError, type KnowledgeHit, type KnowledgeQuestion, type Product } from './types.ts'

export type KnowledgeBase = {
  /** @throws KnowledgeError; the signal's abort reason */
  products(signal: AbortSignal): Promise<readonly Product[]>
  /** @throws KnowledgeError; the signal's abort reason */
  search(question: KnowledgeQuestion, signal: AbortSignal): Promise<readonly KnowledgeHit[]>
  close(): void
}

type KnowledgeOptions = {
  readonly path: string
  /** The maximum size of a file that is read on the main thread. */
  readonly mainThreadBytes?: number
}

const idleMs = 60_000

/** `name`: identifies the file and its state. */
type Stamp = { readonly name: string; readonly size: number }

export function createKnowledgeBase({ path, mainThreadBytes = 4_194_304 }: KnowledgeOptions): KnowledgeBase {
  const thread = createThread(idleMs)
  /** Cached, because listing products reads the whole file. */
  let known: { readonly stamp: string; readonly products: readonly Product[] } | undefined

  function stampOf(): Stamp {
    const found = statSync(path, { throwIfNoEntry: false })
    if (found === undefined) throw new KnowledgeError({ kind: 'missing' })
    const { dev, ino, size, mtimeMs } = found
    return { name: `${dev} ${ino} ${size} ${mtimeMs}`, size }
  }

  async function run(task: Task, size: number, signal: AbortSignal): Promise<TaskResult> {
    signal.throwIfAborted()
    const result = size > mainThreadBytes ? await thread.run(path, task, signal) : runTask(path, task, () => false)
    if (result.kind === 'fault') throw new KnowledgeError(result.fault)
    return result
  }

  return {
    products: async signal => {
      const { name, size } = stampOf()
      if (known?.stamp === name) return known.products
      const result = await run({ kind: 'products' }, size, signal)
      const products = result.kind === 'products' ? result.products : []
      known = { stamp: name, products }
      return products
    },
    search: async (question, signal) => {
      const result = await run({ kind: 'search', question }, stampOf().size, signal)
      return result.kind === 'hits' ? result.hits : []
    },
    close: () => thread.close(),
  }
}
