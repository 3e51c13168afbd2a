/** Assembles a streamed generateContent response: each piece is a response with the next parts. */
import { z } from 'zod'
import type { Assembly } from '../wire.ts'

const part = z.looseObject({ text: z.string().nullish(), thought: z.boolean().nullish() })
const piece = z.object({
  candidates: z
    .array(
      z.object({
        content: z.object({ parts: z.array(part).nullish() }).nullish(),
        finishReason: z.string().nullish(),
      }),
    )
    .nullish(),
  promptFeedback: z.object({ blockReason: z.string().nullish() }).nullish(),
  usageMetadata: z.unknown().optional(),
})

type Part = z.infer<typeof part>

const isText = (one: Part | undefined): one is Part & { text: string } => Boolean(one?.text) && !one?.thought

export function assembleGemini(): Assembly {
  const parts: Part[] = []
  let finishReason: string | undefined
  let promptFeedback: z.infer<typeof piece>['promptFeedback']
  let usageMetadata: unknown
  return {
    take(value) {
      const taken = piece.parse(value)
      const [candidate] = taken.candidates ?? []
      finishReason = candidate?.finishReason ?? finishReason
      promptFeedback = taken.promptFeedback ?? promptFeedback
      usageMetadata = taken.usageMetadata ?? usageMetadata
      let added = ''
      for (const one of candidate?.content?.parts ?? []) {
        const last = parts.at(-1)
        if (!isText(one)) parts.push(one)
        else {
          added += one.text
          if (isText(last)) last.text += one.text
          else parts.push({ ...one })
        }
      }
      return added
    },
    isComplete: () => finishReason !== undefined || Boolean(promptFeedback?.blockReason),
    assembled: () => ({
      candidates: finishReason === undefined ? [] : [{ content: { parts }, finishReason }],
      promptFeedback,
      usageMetadata,
    }),
  }
}
