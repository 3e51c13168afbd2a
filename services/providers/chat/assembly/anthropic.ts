/**
 * Assembles a streamed Messages response. Its events start, extend and end blocks, between the first and last event of
 * the message.
 */
import { z } from 'zod'
import { type Assembly, jsonText } from '../wire.ts'

const record = z.record(z.string(), z.unknown())
const piece = z.union([
  z.object({ type: z.literal('message_start'), message: z.object({ usage: record.nullish() }) }),
  z.object({
    type: z.literal('content_block_start'),
    index: z.int().nonnegative(),
    content_block: z.looseObject({ type: z.string(), text: z.string().nullish() }),
  }),
  z.object({
    type: z.literal('content_block_delta'),
    index: z.int().nonnegative(),
    delta: z.object({ type: z.string(), text: z.string().nullish(), partial_json: z.string().nullish() }),
  }),
  z.object({
    type: z.literal('message_delta'),
    delta: z.object({ stop_reason: z.string().nullish() }),
    usage: record.nullish(),
  }),
  z.object({ type: z.literal('message_stop') }),
  // Ignores `ping`, `content_block_stop` and future event types.
  z.object({ type: z.string() }).transform(() => ({ type: 'other' as const })),
])

type Block = { readonly begun: { readonly type: string }; text: string; json: string }

const written = ({ begun, text, json }: Block): object => {
  if (begun.type === 'text') return { ...begun, text }
  return begun.type === 'tool_use' ? { ...begun, input: jsonText.parse(json) } : begun
}

export function assembleAnthropic(): Assembly {
  const blocks = new Map<number, Block>()
  let usage: object = {}
  let stopReason: string | undefined
  let isEnded = false
  return {
    take(value) {
      const event = piece.parse(value)
      switch (event.type) {
        case 'message_start':
          usage = { ...event.message.usage }
          return ''
        case 'content_block_start': {
          const text = event.content_block.type === 'text' ? (event.content_block.text ?? '') : ''
          blocks.set(event.index, { begun: event.content_block, text, json: '' })
          return text
        }
        case 'content_block_delta': {
          const block = blocks.get(event.index)
          if (block === undefined) return ''
          block.json += event.delta.partial_json ?? ''
          if (block.begun.type !== 'text') return ''
          block.text += event.delta.text ?? ''
          return event.delta.text ?? ''
        }
        case 'message_delta':
          stopReason = event.delta.stop_reason ?? stopReason
          usage = { ...usage, ...event.usage }
          return ''
        case 'message_stop':
          isEnded = true
          return ''
        case 'other':
          return ''
      }
    },
    isComplete: () => isEnded,
    assembled: () => ({ content: [...blocks.values()].map(written), stop_reason: stopReason, usage }),
  }
}
