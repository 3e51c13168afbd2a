/**
 * Reads queries and judgements from files. Queries are JSON lines of `{"id", "text"}`. Judgements are tab-separated
 * lines of query, document and score (BEIR's format).
 */
import { z } from 'zod'
import type { Judgements } from './metrics.ts'

/** The message names the line and the rule. */
export class CollectionError extends Error {
  override readonly name = 'CollectionError'
}

export type JudgedQuery = { readonly id: string; readonly text: string; readonly judgements: Judgements }

const id = z.union([z.string().min(1), z.number()]).transform(String)
const queryLine = z.union([z.object({ id, text: z.string() }), z.object({ _id: id, text: z.string() })])

function parseQueries(text: string): ReadonlyMap<string, string> {
  const queries = new Map<string, string>()
  for (const [index, line] of text.split('\n').entries()) {
    if (line.trim() === '') continue
    const location = `--queries line ${index + 1}`
    const parsed = queryLine.safeParse(parseJson(line, location))
    if (!parsed.success) throw new CollectionError(`${location}: must be {"id": ..., "text": ...}`)
    const query = parsed.data
    queries.set('id' in query ? query.id : query._id, query.text)
  }
  return queries
}

function parseJson(line: string, location: string): unknown {
  try {
    return JSON.parse(line)
  } catch {
    throw new CollectionError(`${location}: is not JSON`)
  }
}

/** Returns judgements by query. */
function parseJudgements(text: string): ReadonlyMap<string, Judgements> {
  const judgements = new Map<string, Map<string, number>>()
  for (const [index, line] of text.split(/\r?\n/).entries()) {
    if (line.trim() === '') continue
    const [query = '', document = '', score = '', ...more] = line.split('\t')
    const isHeader = index === 0 && score !== '' && Number.isNaN(Number(score))
    if (isHeader) continue
    if (query === '' || document === '' || score.trim() === '' || Number.isNaN(Number(score)) || more.length > 0) {
      throw new CollectionError(`--judgements line ${index + 1}: must be query, document and score, tab-separated`)
    }
    const own = judgements.get(query) ?? new Map<string, number>()
    judgements.set(query, own.set(document, Number(score)))
  }
  return judgements
}

/** Returns the queries that have judgements. @throws CollectionError */
export function judgedQueries(queriesText: string, judgementsText: string): readonly JudgedQuery[] {
  const [queries, judgements] = [parseQueries(queriesText), parseJudgements(judgementsText)]
  const judged = [...queries].flatMap(([query, text]) => {
    const own = judgements.get(query)
    return own === undefined ? [] : [{ id: query, text, judgements: own }]
  })
  if (judged.length === 0) throw new CollectionError('no query of --queries has a judgement in --judgements')
  return judged
}
