/**
 * Runs one task on a knowledge-base file, on either thread. Returns errors of the file as results, and throws other
 * errors.
 */
import { readProducts, searchFile } from './file.ts'
import type { Task, TaskResult } from './protocol.ts'
import { KnowledgeError } from './types.ts'

export function runTask(path: string, task: Task, isAborted: () => boolean): TaskResult {
  try {
    return task.kind === 'products'
      ? { kind: 'products', products: readProducts(path) }
      : { kind: 'hits', hits: searchFile(path, task.question, isAborted) }
  } catch (error) {
    if (error instanceof KnowledgeError) return { kind: 'fault', fault: error.fault }
    throw error
  }
}
