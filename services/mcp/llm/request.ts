/** Converts a chat client's request to the messages of `services/providers`. */
import { z } from 'zod'
import type { ChatBlock, ChatMessage, ChatTool } from '../../providers/types.ts'

const jsonMap = z.record(z.string(), z.json())
const name = z.string().regex(/^[\w.-]{1,128}$/, 'must be 1 to 128 letters, digits, underscores, dots or hyphens')

/** A tool result is a text or content blocks. Text blocks stay unchanged; other blocks become JSON. */
const resultContent = z.union(
  [
    z.string(),
    z
      .array(z.looseObject({ type: z.string() }))
      .transform(blocks =>
        blocks
          .map(block => (block.type === 'text' && typeof block.text === 'string' ? block.text : JSON.stringify(block)))
          .join('\n'),
      ),
  ],
  'must be a string or a list of content blocks',
)

const block = z.discriminatedUnion('type', [
  z.object({ type: z.literal('text'), text: z.string() }),
  z.object({
    type: z.literal('tool_use'),
    id: z.string().min(1).max(256),
    name,
    input: jsonMap.default({}),
    signature: z.string().optional(),
  }),
  z.object({
    type: z.literal('tool_result'),
    tool_use_id: z.string().min(1).max(256),
    content: resultContent.default(''),
    is_error: z.boolean().optional(),
  }),
])

const message = z
  .object({
    role: z.enum(['user', 'assistant', 'system']),
    content: z.union([z.string(), z.array(block).max(1_000)]),
    cache_control: z.looseObject({ type: z.literal('ephemeral') }).nullish(),
  })
  .transform(({ role, content, cache_control }): ChatMessage => {
    const blocks: readonly ChatBlock[] = typeof content === 'string' ? [{ type: 'text', text: content }] : content
    return { role, content: blocks, ...(cache_control && { cache: true }) }
  })

const tool = z
  .object({
    name,
    description: z.string().default(''),
    inputSchema: jsonMap.default({ type: 'object', properties: {} }),
  })
  .transform((one): ChatTool => one)

export const chatRequest = z.object({
  messages: z.array(message).min(1).max(10_000),
  tools: z.array(tool).max(512).default([]),
  provider: z.string().optional(),
  model: z.string().min(1).max(256).optional(),
})
