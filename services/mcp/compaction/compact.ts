/**
 * Shrinks a chat to a number of tokens by removing the least important messages. Remaining messages keep their order,
 * and calls and results stay together. The outcome is never longer than the input. It fits if the required messages
 * fit.
 */
import { classify, toolNamesOf } from './classify.ts'
import { type CompactionRequest, type Message, type MessageClass, messageClasses } from './request.ts'
import { gapOf, select } from './select.ts'
import { emptySummary, type Summary, summarise, summaryTexts } from './summary.ts'
import { createTokenCounter, type TokenCounter } from './tokens.ts'

export type Compacted = {
  readonly messages: readonly Message[]
  readonly summary: Summary
  readonly token_estimate: number
  readonly compaction_info: {
    readonly original_count: number
    readonly compacted_count: number
    readonly dropped_count: number
    readonly anchor_count: number
    readonly tokens_saved: number
    /** The ratio of remaining tokens to original tokens. */
    readonly compression_ratio: number
  }
}

/** Which messages remain and which are removed. Does not include the summary. */
export type Plan = {
  readonly count: TokenCounter
  readonly maximumTokens: number
  readonly messages: readonly Message[]
  readonly classes: readonly MessageClass[]
  readonly kept: readonly number[]
  readonly dropped: readonly Message[]
  readonly originalTokens: number
  readonly keptTokens: number
}

const summaryShare = 0.1
const maximumReserved = 400

export function plan(request: CompactionRequest): Plan {
  const { messages, max_tokens, recent_window, keep_anchors, options } = request
  const count = createTokenCounter(options.token_counter_type)
  const tokens = messages.map(count)
  const names = toolNamesOf(messages)
  const classes = messages.map(message => classify(message, options, names))
  const originalTokens = tokens.reduce((sum, one) => sum + one, 0)
  const kept =
    originalTokens <= max_tokens
      ? [...messages.keys()]
      : select({
          messages,
          classes,
          tokens,
          maximumTokens: max_tokens,
          reservedTokens: options.enable_summarization ? Math.min(maximumReserved, max_tokens * summaryShare) : 0,
          recentWindow: recent_window,
          keepAnchors: keep_anchors,
          minimumImportant: options.min_important_messages,
        })
  const stays = new Set(kept)
  return {
    count,
    maximumTokens: max_tokens,
    messages,
    classes,
    kept,
    dropped: messages.filter((_, index) => !stays.has(index)),
    originalTokens,
    keptTokens: kept.reduce((sum, index) => sum + (tokens[index] ?? 0), 0),
  }
}

/** The most detailed summary of removed messages that fits the limit and is shorter than the removed messages. */
function summaryMessage(
  summary: Summary,
  { count, maximumTokens, keptTokens, originalTokens }: Plan,
): Message | undefined {
  const available = Math.min(maximumTokens - keptTokens, originalTokens - keptTokens - 1)
  return summaryTexts(summary)
    .map((content): Message => ({ role: 'user', content }))
    .find(message => count(message) <= available)
}

/** `description`: a model's description of the removed messages. */
export function carryOut(planned: Plan, isSummarised: boolean, description?: string): Compacted {
  const { count, messages, classes, kept, dropped, originalTokens, keptTokens } = planned
  const byRule = isSummarised && dropped.length > 0 ? summarise(dropped) : emptySummary
  const summary = description === undefined ? byRule : { ...byRule, description }
  const remaining = kept.flatMap(index => messages[index] ?? [])
  const gap = dropped.length > 0 && isSummarised ? gapOf(messages, kept) : undefined
  const summaryText = gap === undefined ? undefined : summaryMessage(summary, planned)
  const all = summaryText === undefined ? remaining : remaining.toSpliced(gap ?? 0, 0, summaryText)
  const tokens = keptTokens + (summaryText === undefined ? 0 : count(summaryText))
  return {
    messages: all,
    summary,
    token_estimate: tokens,
    compaction_info: {
      original_count: messages.length,
      compacted_count: all.length,
      dropped_count: dropped.length,
      anchor_count: kept.filter(index => classes[index] === 'anchor').length,
      tokens_saved: originalTokens - tokens,
      compression_ratio: originalTokens === 0 ? 1 : tokens / originalTokens,
    },
  }
}

export const classCounts = ({ classes }: Plan): Readonly<Record<string, number>> =>
  Object.fromEntries(messageClasses.map(one => [one, classes.filter(other => other === one).length]))
