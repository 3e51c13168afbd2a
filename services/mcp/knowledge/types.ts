/** Queries and results of a knowledge base. */

export type KnowledgeProvider = 'openai' | 'voyage' | 'ollama' | 'gemini'

/** A project in one version. */
export type Product = { readonly project: string; readonly version: string; readonly chunks: number }

export type KnowledgeQuestion = {
  /** The provider whose vectors are compared. */
  readonly provider: KnowledgeProvider
  readonly vector: Float32Array
  /** Empty: all. */
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
  /** Cosine, 1 for the same direction. */
  readonly similarity: number
}

export type KnowledgeFault =
  | { readonly kind: 'missing' }
  /** Not SQLite, or without the tables of a knowledge base. */
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
