/** Assembles a streamed Chat Completions response: deltas of texts and call arguments. The last piece has the usage. */
import { z } from 'zod'
import type { Assembly } from '../wire.ts'

const callPiece = z.object({
  index: z.int().nonnegative().nullish(),
  id: z.string().nullish(),
  function: z.object({ name: z.string().nullish(), arguments: z.string().nullish() }).nullish(),
})
const piece = z.object({
  choices: z
    .array(
      z.object({
        delta: z
          .object({
            content: z.string().nullish(),
            refusal: z.string().nullish(),
            tool_calls: z.array(callPiece).nullish(),
          })
          .nullish(),
        finish_reason: z.string().nullish(),
      }),
    )
    .nullish(),
  usage: z.unknown().optional(),
})

type Call = { id: string; name: string; arguments: string }

export function assembleOpenAi(): Assembly {
  let [content, refusal] = ['', '']
  let finishReason: string | undefined
  let usage: unknown
  const calls = new Map<number, Call>()

  function takeCall({ index, id, function: named }: z.infer<typeof callPiece>): void {
    // Some servers do not number calls. They send the id only in the first piece of each call.
    const key = index ?? (id ? calls.size : Math.max(0, calls.size - 1))
    const call = calls.get(key) ?? { id: '', name: '', arguments: '' }
    call.id ||= id ?? ''
    call.name ||= named?.name ?? ''
    call.arguments += named?.arguments ?? ''
    calls.set(key, call)
  }

  return {
    take(value) {
      const { choices, usage: used } = piece.parse(value)
      usage = used ?? usage
      const [choice] = choices ?? []
      finishReason = choice?.finish_reason ?? finishReason
      const { content: text, refusal: refused, tool_calls } = choice?.delta ?? {}
      content += text ?? ''
      refusal += refused ?? ''
      for (const call of tool_calls ?? []) takeCall(call)
      return text ?? ''
    },
    isComplete: () => finishReason !== undefined,
    assembled: () => ({
      choices: [
        {
          finish_reason: finishReason,
          message: {
            content,
            refusal,
            tool_calls: [...calls.values()].map(({ id, ...named }) => ({ id, function: named })),
          },
        },
      ],
      usage,
    }),
  }
}
