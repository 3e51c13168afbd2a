/** A compaction request: a chat, its token limit, and options. */
import { z } from 'zod'

/** The most important class first. */
export const messageClasses = ['anchor', 'important', 'contextual', 'routine', 'transient'] as const
export type MessageClass = (typeof messageClasses)[number]

const block = z.looseObject({ type: z.string().min(1).max(64) })
const message = z.looseObject({
  role: z.string().min(1).max(64),
  content: z.union([z.string(), z.array(block)], 'must be a text or a list of blocks'),
})

/** The message as sent; unknown fields are kept. */
export type Message = z.infer<typeof message>

const options = z.object({
  preserve_tool_results: z.boolean().default(true),
  preserve_schema_info: z.boolean().default(true),
  enable_summarization: z.boolean().default(true),
  enable_llm_summarization: z.boolean().default(false),
  enable_caching: z.boolean().default(false),
  enable_analytics: z.boolean().default(false),
  min_important_messages: z.int().min(0).max(10_000).default(3),
  token_counter_type: z.enum(['generic', 'openai', 'anthropic', 'ollama']).default('generic'),
})

export type TokenCounterType = z.infer<typeof options>['token_counter_type']

export const compactionRequest = z.object({
  messages: z.array(message).max(10_000),
  max_tokens: z.int().min(1).max(100_000_000).default(100_000),
  recent_window: z.int().min(0).max(10_000).default(10),
  keep_anchors: z.boolean().default(true),
  options: options.prefault({}),
})

export type CompactionRequest = z.infer<typeof compactionRequest>
