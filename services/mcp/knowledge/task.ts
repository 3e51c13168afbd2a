/** One task on a knowledge-base file, on whichever thread. What is wrong with the file is a result; anything else is thrown. */
import { readProducts, searchFile } from './file.ts'
import type { Task, TaskResult } from './protocol.ts'
import { KnowledgeError } from './types.ts'

export function carryOut(path: string, task: Task, isGone: () => boolean): TaskResult {
  try {
    return task.kind === 'products'
      ? { kind: 'products', products: readProducts(path) }
      : { kind: 'hits', hits: searchFile(path, task.question, isGone) }
  } catch (error) {
    if (error instanceof KnowledgeError) return { kind: 'fault', fault: error.fault }
    throw error
  }
}
