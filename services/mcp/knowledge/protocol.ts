/** Messages between the main thread and the thread that searches large knowledge bases. */
import type { KnowledgeFault, KnowledgeHit, KnowledgeQuestion, Product } from './types.ts'

export type Task = { readonly kind: 'products' } | { readonly kind: 'search'; readonly question: KnowledgeQuestion }

/** `aborted`: one number; it becomes nonzero when the caller aborts. */
export type TaskMessage = {
  readonly id: number
  readonly path: string
  readonly task: Task
  readonly aborted: Int32Array<SharedArrayBuffer>
}

export type TaskResult =
  | { readonly kind: 'products'; readonly products: readonly Product[] }
  | { readonly kind: 'hits'; readonly hits: readonly KnowledgeHit[] }
  | { readonly kind: 'fault'; readonly fault: KnowledgeFault }

export type ResultMessage = { readonly id: number; readonly result: TaskResult }
