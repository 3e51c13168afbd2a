/** Selects the documents and the part of the conversation for a prompt. */
import { fenced, fenceTokens } from '../../retrieval/fence.ts'
import type { Message } from '../request/body.ts'
import type { FoundDocument } from '../search/types.ts'
import { mostTokens } from './bound.ts'
import type { CountTokens } from './tokens.ts'
import { beginning, mayFit, truncateTo } from './truncate.ts'

type Context = {
  /** Documents in the prompt's format, best first. */
  readonly documents: readonly string[]
  /** Messages, oldest first. */
  readonly history: readonly Message[]
}

/** The maximum share of the conversation. Documents may use the part that the conversation does not use. */
const shareOfHistory = 1 / 3
/** The tokens that a provider adds to a message. */
const messageTokens = 4
const longestSource = 200
const truncationMarker = ' [...]'

/**
 * The number is the document's position among the answer's sources. The id comes from the table, so it is data as well.
 */
const headOf = (index: number): string => `--- Document ${index + 1} ---\n`
const sourceOf = ({ table, id }: FoundDocument): string => `Source: ${table} ${beginning(id, longestSource)}\n\n`
const rendered = (document: FoundDocument, index: number, text: string): string =>
  headOf(index) + fenced(sourceOf(document) + text)

function recent(history: readonly Message[], budget: number, count: CountTokens) {
  let remaining = budget
  let from = history.length
  for (const { content } of history.toReversed()) {
    const tokens = mayFit(content, remaining) ? count(content) + messageTokens : Number.POSITIVE_INFINITY
    if (tokens > remaining) break
    remaining -= tokens
    from -= 1
  }
  const nonEmpty = history.slice(from).filter(({ content }) => content.trim() !== '')
  // A conversation must start with the user, because some providers refuse any other start.
  const first = nonEmpty.findIndex(({ role }) => role === 'user')
  return { history: first === -1 ? [] : nonEmpty.slice(first), used: budget - remaining }
}

const textOf = ({ content }: FoundDocument): string => content.trim()

/** Omits documents whose text an earlier document has. */
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
  let remaining = budget
  for (const [index, document] of distinct(documents)) {
    const text = textOf(document)
    // Counts tokens without delimiters, which differ each time.
    const around = fenceTokens + count(headOf(index)) + count(sourceOf(document))
    const tokens = mayFit(text, remaining) ? around + count(text) : Number.POSITIVE_INFINITY
    if (tokens > remaining) {
      const truncated = truncateTo(text, remaining - around - count(truncationMarker), count, all.length === 0)
      if (truncated !== undefined) all.push(rendered(document, index, truncated + truncationMarker))
      break
    }
    all.push(rendered(document, index, text))
    remaining -= tokens
  }
  return all
}

/**
 * Whether everything certainly fits, without counting tokens. Counting takes longer than all other work of this server
 * for a request, and the tokenizer's tables take 25 MiB.
 */
export function surelyFits(documents: readonly FoundDocument[], history: readonly Message[], budget: number): boolean {
  const ofHistory = history.reduce((sum, { content }) => sum + mostTokens(content) + messageTokens, 0)
  if (ofHistory > budget * shareOfHistory) return false
  let remaining = budget - ofHistory
  for (const [index, document] of documents.entries()) {
    remaining -= fenceTokens + mostTokens(headOf(index)) + mostTokens(sourceOf(document)) + mostTokens(textOf(document))
    if (remaining < 0) return false
  }
  return true
}

/**
 * `budget`: the tokens of documents and conversation together. Keeps the most recent messages and the best documents.
 * The last document may be truncated.
 */
export function contextOf(
  documents: readonly FoundDocument[],
  history: readonly Message[],
  budget: number,
  count: CountTokens,
): Context {
  const recentPart = recent(history, Math.floor(budget * shareOfHistory), count)
  return { documents: fitting(documents, budget - recentPart.used, count), history: recentPart.history }
}

export const hasText = (documents: readonly FoundDocument[]): boolean =>
  documents.some(document => textOf(document) !== '')
