/** Queries to a knowledge base, and their results. */

export type KnowledgeProvider = 'openai' | 'voyage' | 'ollama' | 'gemini'

/** One version of a project. */
export type Product = { readonly project: string; readonly version: string; readonly chunks: number }

export type KnowledgeQuestion = {
  /** The provider whose vectors the search compares. */
  readonly provider: KnowledgeProvider
  readonly vector: Float32Array
  /** The projects to search; empty: all. */
  readonly projects: readonly string[]
  readonly versions: readonly string[]
  readonly limit: number
}

export type KnowledgeHit = {
  readonly text: string
  readonly title: string
  readonly section: string
  readonly project: string
  readonly version: string
  readonly path: string
  /** The cosine: 1 for vectors of the same direction. */
  readonly similarity: number
}

export type KnowledgeFault =
  | { readonly kind: 'missing' }
  /** The file is not SQLite, or lacks the tables of a knowledge base. */
  | { readonly kind: 'invalid'; readonly problem: string }
  | { readonly kind: 'no vectors'; readonly provider: string }
  | { readonly kind: 'dimensions'; readonly stored: number; readonly requested: number }
  | { readonly kind: 'busy' }

export class KnowledgeError extends Error {
  readonly fault: KnowledgeFault

  constructor(fault: KnowledgeFault) {
    super(fault.kind)
    this.name = 'KnowledgeError'
    this.fault = fault
  }
}
