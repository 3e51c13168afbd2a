/** Assembles a streamed Ollama response, with one line for each piece. The last piece has the token counts. */
import { z } from 'zod'
import type { Assembly } from '../wire.ts'

const piece = z.looseObject({
  message: z.object({ content: z.string().nullish(), tool_calls: z.array(z.unknown()).nullish() }).nullish(),
  done: z.boolean().nullish(),
})

export function assembleOllama(): Assembly {
  let content = ''
  const calls: unknown[] = []
  let last: object | undefined
  return {
    take(value) {
      const taken = piece.parse(value)
      content += taken.message?.content ?? ''
      calls.push(...(taken.message?.tool_calls ?? []))
      if (taken.done) last = taken
      return taken.message?.content ?? ''
    },
    isComplete: () => last !== undefined,
    assembled: () => ({ ...last, message: { content, tool_calls: calls } }),
  }
}
