/** A pipeline for tests of the server. The test sets its documents, answers and failures. */
import type { PipelineSettings } from '../configuration/types.ts'
import type { Pipeline, Question, Reachability } from '../pipelines.ts'
import type { FoundDocument, SearchRequest } from '../search/types.ts'

type Behaviour = {
  readonly documents: readonly FoundDocument[]
  readonly search: (request: SearchRequest, signal: AbortSignal) => Promise<void>
  readonly pieces: (question: Question, signal: AbortSignal) => AsyncIterable<string>
  readonly reachable: boolean
  readonly databaseHealth: () => Reachability
}

export type FakePipeline = Pipeline & {
  readonly isClosed: () => boolean
  readonly searched: SearchRequest[]
  checks: () => number
}

export const document = (id: string): FoundDocument => ({ table: 'public.t', id, content: `text of ${id}`, score: 0.5 })

export async function* streamOf(...pieces: string[]): AsyncGenerator<string> {
  yield* pieces
}

export function fakePipeline(settings: PipelineSettings, behaviour: Partial<Behaviour> = {}): FakePipeline {
  const {
    documents = [document('a'), document('b')],
    pieces = () => streamOf('Yes', ', it is.'),
    reachable = true,
    databaseHealth = () => ({ reachable: true }),
  } = behaviour
  const searched: SearchRequest[] = []
  let isClosed = false
  let checks = 0
  return {
    settings,
    searched,
    isClosed: () => isClosed,
    checks: () => checks,
    pool: { size: 10, open: 1, idle: 1, waiting: 0, timeouts: 0 },
    async search(request, signal) {
      searched.push(request)
      await behaviour.search?.(request, signal)
      return {
        documents: documents.slice(0, request.topN),
        warnings: [],
        isIncomplete: request.query === 'incomplete',
        tokensUsed: 7,
      }
    },
    async answer(question, signal) {
      let answer = ''
      for await (const piece of pieces(question, signal)) answer += piece
      return { answer, tokensUsed: 42 }
    },
    async *answerStream(question, signal) {
      yield* pieces(question, signal)
      return { tokensUsed: 42 }
    },
    async health() {
      checks += 1
      const well = { reachable: true }
      return { embedding: well, completion: reachable ? well : { reachable, error: 'openai failed' }, database: well }
    },
    async databaseHealth() {
      return databaseHealth()
    },
    async close() {
      isClosed = true
    },
  }
}
