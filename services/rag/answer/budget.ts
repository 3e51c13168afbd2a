/** What of the documents and of the conversation goes into a prompt. Pure. */
import { fenced, fenceTokens } from '../../retrieval/fence.ts'
import type { Message } from '../request/body.ts'
import type { FoundDocument } from '../search/types.ts'
import { mostTokens } from './bound.ts'
import { beginning, cutTo, mayFit } from './cut.ts'
import type { CountTokens } from './tokens.ts'

type Context = {
  /** As a prompt has them, the best first. */
  readonly documents: readonly string[]
  /** The oldest first. */
  readonly history: readonly Message[]
}

/** Documents may take what the conversation leaves. */
const shareOfHistory = 1 / 3
/** What a provider adds to a message. */
const messageTokens = 4
const longestSource = 200
const cutMark = ' [...]'

/** Numbered by its place among the sources of the answer. The id is the table's, and so data as well. */
const headOf = (place: number): string => `--- Document ${place + 1} ---\n`
const sourceOf = ({ table, id }: FoundDocument): string => `Source: ${table} ${beginning(id, longestSource)}\n\n`
const rendered = (document: FoundDocument, place: number, text: string): string =>
  headOf(place) + fenced(sourceOf(document) + text)

function recent(history: readonly Message[], budget: number, count: CountTokens) {
  let left = budget
  let from = history.length
  for (const { content } of history.toReversed()) {
    const tokens = mayFit(content, left) ? count(content) + messageTokens : Number.POSITIVE_INFINITY
    if (tokens > left) break
    left -= tokens
    from -= 1
  }
  const kept = history.slice(from).filter(({ content }) => content.trim() !== '')
  // A conversation begins with the user; some providers refuse others.
  const first = kept.findIndex(({ role }) => role === 'user')
  return { history: first === -1 ? [] : kept.slice(first), used: budget - left }
}

const textOf = ({ content }: FoundDocument): string => content.trim()

/** Documents with a text that no document before has. */
const distinct = (documents: readonly FoundDocument[]) => {
  const seen = new Set<string>()
  return [...documents.entries()].filter(([, document]) => {
    const text = textOf(document)
    if (text === '' || seen.has(text)) return false
    seen.add(text)
    return true
  })
}

function fitting(documents: readonly FoundDocument[], budget: number, count: CountTokens): readonly string[] {
  const all: string[] = []
  let left = budget
  for (const [place, document] of distinct(documents)) {
    const text = textOf(document)
    // Marks are not counted: they are new each time.
    const around = fenceTokens + count(headOf(place)) + count(sourceOf(document))
    const tokens = mayFit(text, left) ? around + count(text) : Number.POSITIVE_INFINITY
    if (tokens > left) {
      const cut = cutTo(text, left - around - count(cutMark), count, all.length === 0)
      if (cut !== undefined) all.push(rendered(document, place, cut + cutMark))
      break
    }
    all.push(rendered(document, place, text))
    left -= tokens
  }
  return all
}

/** Whether all fits, whatever its tokens are. Counting takes longer than anything else that this server does for a request, and its tables take 25 MiB. */
export function surelyFits(documents: readonly FoundDocument[], history: readonly Message[], budget: number): boolean {
  const ofHistory = history.reduce((sum, { content }) => sum + mostTokens(content) + messageTokens, 0)
  if (ofHistory > budget * shareOfHistory) return false
  let left = budget - ofHistory
  for (const [place, document] of documents.entries()) {
    left -= fenceTokens + mostTokens(headOf(place)) + mostTokens(sourceOf(document)) + mostTokens(textOf(document))
    if (left < 0) return false
  }
  return true
}

/** `budget`: tokens of both. The most recent messages and the best documents are kept; the last document may be cut. */
export function contextOf(
  documents: readonly FoundDocument[],
  history: readonly Message[],
  budget: number,
  count: CountTokens,
): Context {
  const kept = recent(history, Math.floor(budget * shareOfHistory), count)
  return { documents: fitting(documents, budget - kept.used, count), history: kept.history }
}

export const hasText = (documents: readonly FoundDocument[]): boolean =>
  documents.some(document => textOf(document) !== '')
